/** A worker at a FakeSidecar, driven step by step, with a clock that the test moves. */

import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { Connection } from "../../src/connection.js";
import { int, json, t as shape, str } from "../../src/serdes/index.js";
import { MemoryStores, type Stores } from "../../src/stores/index.js";
import {
  type FakeCommit,
  FakeSidecar,
  type FakeSidecarOptions,
  type FakeTask,
  type FakeWorker,
  type PairInit,
} from "../../src/testing/index.js";
import { ManualClock } from "../../src/testing/sim/clock.js";
import type { Context } from "../../src/worker/context.js";
import type { SourceTable } from "../../src/worker/declared.js";
import { inside } from "../../src/worker/inside.js";
import type { WorkerOptions } from "../../src/worker/options.js";
import type { Batch, KafkaRecord } from "../../src/worker/records.js";
import type { Runtime } from "../../src/worker/runtime.js";
import { Worker } from "../../src/worker/worker.js";

/** Let the event loop turn until a condition holds; a test fails when it never does. */
export async function until(condition: () => boolean, what = "it"): Promise<void> {
  const end = performance.now() + 10_000;
  while (!condition()) {
    assert.ok(performance.now() < end, `${what} does not come`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Something that comes once. */
export class Gate {
  open: () => void = () => {};
  readonly opened = new Promise<void>((resolve) => {
    this.open = resolve;
  });
}

export interface StageOptions extends FakeSidecarOptions {
  readonly commitIntervalMs?: number;
  readonly stores?: Stores;
}

/** A worker, the other end of its connection, and the clock. */
export class Stage {
  readonly worker: Worker;
  readonly fake: FakeWorker;
  readonly runtime: Runtime;
  readonly clock: ManualClock;
  /** The end of the run. Its rejection counts when the test waits for it. */
  readonly work: Promise<void>;

  constructor(
    worker: Worker,
    fake: FakeWorker,
    runtime: Runtime,
    clock: ManualClock,
    work: Promise<void>,
  ) {
    this.worker = worker;
    this.fake = fake;
    this.runtime = runtime;
    this.clock = clock;
    this.work = work;
  }

  open(set: string, partition = 0): Promise<FakeTask> {
    return this.fake.start(set, partition);
  }

  records(task: FakeTask, topic: string, ...pairs: readonly PairInit[]): void {
    this.fake.records(task, topic, pairs);
  }

  /** Wait until somebody waits for a time. */
  waiting(): Promise<void> {
    return until(() => this.clock.size > 0, "a wait for a time");
  }

  /** Let time pass. */
  pass(ms: number): void {
    const to = this.clock.now() + ms;
    while (this.clock.move(to)) {
      // and all that is due on the way
    }
  }

  /** Wait for a commit, and land it. */
  async commit(): Promise<FakeCommit> {
    const commit = await this.fake.commit();
    this.fake.committed(commit);
    return commit;
  }
}

/** Run a worker; the test's end ends it if it has not ended. */
export async function staged(
  t: TestContext,
  worker: Worker,
  options: StageOptions = {},
): Promise<Stage> {
  const { commitIntervalMs = 0, stores = new MemoryStores(), ...rest } = options;
  const sidecar = await FakeSidecar.listen(rest);
  const clock = new ManualClock();
  const made = worker[inside].options({ url: sidecar.url });
  const runtime = worker[inside].runtime({
    connect: () => new Connection(made),
    stores,
    clock,
    commitIntervalMs,
  });
  const work = runtime.run();
  work.catch(() => {});
  t.after(async () => {
    runtime.kill();
    await runtime.ended();
    await sidecar.close();
    assert.equal(clock.size, 0, "a timer is left");
  });
  return new Stage(worker, await sidecar.accept(), runtime, clock, work);
}

/** Open a task whose table "names" has one row. */
export async function whole(s: Stage): Promise<FakeTask> {
  const task = s.fake.assign("words");
  await s.fake.expect("opened");
  s.fake.restore(task, "names", [pair("k", "old")]);
  await s.fake.restored(task);
  return task;
}

/** Records of one key. */
export function pairs(...values: string[]): PairInit[] {
  return values.map((value) => [Buffer.from("k"), Buffer.from(value)]);
}

/** A record of a key of its own. */
export function pair(key: string, value: string): PairInit {
  return [Buffer.from(key), Buffer.from(value)];
}

/** The rows of a commit by table, as text. */
export function rowsOf({ changelog }: FakeCommit): Record<string, [string, string | null][]> {
  const text = ([key, value]: readonly [Buffer | null, Buffer | null]): [string, string | null] => [
    String(key),
    value === null ? null : String(value),
  ];
  return Object.fromEntries(Array.from(changelog, ([name, rows]) => [name, rows.map(text)]));
}

/** The positions of a commit. */
export function positionsOf({ message }: FakeCommit): Record<string, number> {
  return Object.fromEntries(message.sourceNext);
}

export interface AppOptions extends WorkerOptions {
  readonly batches?: boolean;
  readonly names?: boolean;
}

/** Words in, a list of them kept for each key, lengths out; it waits where it is told to. */
export class App {
  readonly worker: Worker;
  readonly words;
  readonly lists;
  readonly out;
  readonly names: SourceTable<string, string> | null;
  readonly calls: string[] = [];
  /** A handler waits. */
  readonly inside = new Gate();
  readonly go = new Gate();

  constructor({ batches = false, names = false, ...rest }: AppOptions = {}) {
    const worker = new Worker({ group: "g", ...rest });
    this.worker = worker;
    this.words = worker.topic("words", { key: str(), value: str() });
    this.lists = worker.table("lists", {
      key: str(),
      value: json(shape.list(shape.str)),
      default: () => [],
    });
    this.out = worker.output("out", { key: str(), value: int() });
    this.names = names ? worker.sourceTable("names", { key: str(), value: str() }) : null;
    const tables = [this.lists, ...(this.names === null ? [] : [this.names])];
    if (batches) {
      worker.process(this.words, { tables }, async function onWords(batch, ctx) {
        await app.onWords(batch, ctx);
      });
    } else {
      worker.each(this.words, { tables }, async function onWord(record, ctx) {
        await app.onWord(record, ctx);
      });
    }
    const app = this;
  }

  async onWord({ key, value }: KafkaRecord<string, string>, ctx: Context): Promise<void> {
    await this.take(key ?? "", value ?? "", ctx);
  }

  async onWords(batch: Batch<string, string>, ctx: Context): Promise<void> {
    for (const [key, value] of batch.items()) {
      await this.take(key ?? "", value ?? "", ctx);
    }
  }

  async take(key: string, value: string, ctx: Context): Promise<void> {
    this.calls.push(value);
    ctx.table(this.lists).get(key).push(value);
    ctx.send(this.out, { key, value: value.length });
    if (value === "wait") {
      this.inside.open();
      await this.go.opened;
    }
    if (value === "fail") {
      throw new RangeError("no such word");
    }
  }
}

/** Run a worker until its handler stays inside the word "wait" of partition 0. */
export async function held(
  t: TestContext,
  it: App,
  words: readonly string[] = ["wait"],
  options: StageOptions = {},
): Promise<[s: Stage, task: FakeTask]> {
  const s = await staged(t, it.worker, options);
  const task = await s.open("words");
  s.records(task, "words", ...pairs(...words));
  await it.inside.opened;
  return [s, task];
}
