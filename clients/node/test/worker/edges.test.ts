/** A Worker where two things meet: time and tables that are replayed, ends and handlers. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { CloseCode, FrameKind } from "../../src/codes.js";
import { encode } from "../../src/encode.js";
import { Superseded } from "../../src/errors.js";
import { str } from "../../src/serdes/index.js";
import type { Context } from "../../src/worker/context.js";
import type { GlobalTable, SourceTable } from "../../src/worker/declared.js";
import { Worker } from "../../src/worker/worker.js";
import {
  App,
  Gate,
  held,
  pair,
  pairs,
  positionsOf,
  rowsOf,
  type Stage,
  staged,
  until,
  whole,
} from "./working.js";

const text = { key: str(), value: str() };

/** Has a call by time, which waits where it is told to. */
class Timed extends App {
  readonly ticks: (string | undefined)[] = [];
  readonly upstream: SourceTable<string, string>;
  readonly all: GlobalTable<string, string> | null = null;

  constructor({ everywhere = false } = {}) {
    super({ names: true });
    const { worker, lists, names } = this;
    assert.ok(names !== null);
    this.upstream = names;
    worker.every({ seconds: 60, tables: [lists, names] }, (ctx) => this.onTime(ctx));
    if (everywhere) {
      const all = worker.globalTable("all", text);
      this.all = all;
      const others = worker.topic("others", text);
      worker.join(this.words, others);
      worker.each(others, { tables: [all] }, async (_, ctx) => {
        this.inside.open();
        await this.go.opened;
        this.calls.push(ctx.table(all).get("k") ?? "none");
      });
    }
  }

  async onTime(ctx: Context): Promise<void> {
    this.ticks.push(ctx.table(this.upstream).get("k"));
    this.inside.open();
    await this.go.opened;
    this.ticks.push(ctx.table(this.upstream).get("k"));
    ctx.table(this.lists).set("time", ["x"]);
  }
}

/** The worker has had its chance, and has nothing to say. */
async function quiet(s: Stage): Promise<void> {
  for (let i = 0; i < 3; i++) {
    await s.fake.expectNothing();
  }
}

test("a reset waits for a call by time", async (t) => {
  const it = new Timed();
  const s = await staged(t, it.worker);
  const task = await whole(s);
  await s.waiting();
  s.pass(60_000);
  await it.inside.opened;
  s.fake.reset(task, "names");
  await s.fake.expectNothing();
  it.go.open();
  assert.deepEqual(rowsOf(await s.commit()), { lists: [["time", '["x"]']] });
  await s.fake.expect("opened");
  assert.deepEqual(it.ticks, ["old", "old"]);
});

test("a call by time waits for whole tables", async (t) => {
  const it = new Timed();
  it.go.open();
  const s = await staged(t, it.worker);
  const task = await whole(s);
  await s.waiting();
  s.fake.reset(task, "names");
  await s.fake.expect("opened");
  s.pass(60_000);
  await quiet(s);
  assert.deepEqual(it.ticks, []);
  s.fake.restore(task, "names", [pair("k", "new")]);
  await s.fake.restored(task);
  await s.commit();
  assert.deepEqual(it.ticks, ["new", "new"]);
});

test("a call by time waits for global tables", async (t) => {
  const it = new Timed({ everywhere: true });
  it.go.open();
  const s = await staged(t, it.worker);
  const all = s.fake.assign("all");
  await s.fake.expect("opened");
  await whole(s);
  await s.fake.expectNothing();
  s.pass(60_000);
  await quiet(s);
  assert.deepEqual(it.ticks, []);
  await s.fake.restored(all);
  await s.commit();
  assert.deepEqual(it.ticks, ["old", "old"]);
});

test("rows of a global table that is lost are not taken for missing", async (t) => {
  const it = new Timed({ everywhere: true });
  const s = await staged(t, it.worker);
  let all = s.fake.assign("all");
  await s.fake.expect("opened");
  s.fake.restore(all, "all", [pair("k", "there")]);
  await s.fake.restored(all);
  let task = await s.open("words");
  s.records(task, "others", ...pairs("a"));
  await it.inside.opened;
  s.fake.lose(all);
  all = s.fake.assign("all");
  await s.fake.expect("opened");
  it.go.open();
  const error = await s.fake.expect("error");
  assert.deepEqual(
    [error.task, error.message],
    ["words/0", "global table 'all' is being restored"],
  );
  s.fake.lose(task, error.code);
  task = await s.open("words");
  s.records(task, "others", ...pairs("a"));
  await s.fake.expectNothing();
  s.fake.restore(all, "all", [pair("k", "there")]);
  await s.fake.restored(all);
  assert.deepEqual(positionsOf(await s.commit()), { words: 0, others: 1 });
  assert.deepEqual(it.calls, ["there"]);
});

test("what waits for a handler that does not end does not hold the run", async (t) => {
  const it = new App();
  const [s, task] = await held(t, it);
  s.fake.lose(task);
  s.records(await s.open("words"), "words", ...pairs("b")); // waits for the handler before it
  const stopped = it.worker.stop({ timeoutMs: 1000 });
  await s.waiting();
  s.pass(1000);
  await stopped;
  it.go.open();
  await s.fake.closed();
  assert.deepEqual([it.calls, s.fake.pending()], [["wait"], []]);
});

test("a task whose handler does not end is given back, and waits when it comes again", async (t) => {
  const it = new App();
  const [s, first] = await held(t, it);
  s.fake.lose(first);
  let task = await s.open("words");
  s.records(task, "words", ...pairs("b"));
  s.fake.revoke(task);
  await s.fake.expect("released");
  task = await s.open("words");
  s.records(task, "words", ...pairs("c"));
  await s.fake.expectNothing();
  assert.deepEqual(it.calls, ["wait"]);
  it.go.open();
  assert.deepEqual(rowsOf(await s.commit()), { lists: [["k", '["c"]']] });
});

test("stop in a handler whose task is lost", async (t) => {
  const worker = new Worker({ group: "g" });
  const [inside, go, after] = [new Gate(), new Gate(), new Gate()];
  worker.each(worker.topic("words", text), async () => {
    inside.open();
    await go.opened;
    await worker.stop();
    after.open();
  });
  const s = await staged(t, worker);
  const task = await s.open("words");
  s.records(task, "words", ...pairs("a"));
  await inside.opened;
  s.fake.lose(task);
  await s.open("words");
  go.open();
  await after.opened;
  await s.work; // the clock stands still: not after the ten seconds of stop()
});

test("a run that is killed commits nothing, and ends at once", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker, { commitIntervalMs: 60_000 });
  const [one, two] = [await s.open("words", 0), await s.open("words", 1)];
  s.records(one, "words", ...pairs("a"));
  await s.waiting();
  s.records(two, "words", ...pairs("wait"));
  await it.inside.opened;
  void it.worker.stop();
  s.runtime.kill();
  await s.work;
  await s.fake.closed();
  assert.deepEqual(s.fake.pending(), []);
});

test("the position before a bad record is behind the one before", async (t) => {
  const it = new App({ batches: true });
  const s = await staged(t, it.worker);
  const { assign, epoch } = await s.open("words");
  const [source] = assign.sources;
  assert.ok(source !== undefined);
  const key = Buffer.from("k");
  s.fake.sendRaw(
    encode({
      kind: FrameKind.Records,
      stream: source.stream,
      epoch,
      base: 0,
      next: 9,
      keys: [key, key],
      values: [Buffer.from("a"), Buffer.from([0xff])],
      offsets: [2, 7],
    }),
  );
  assert.deepEqual(positionsOf(await s.commit()), { words: 3 });
  await assert.rejects(s.work, /words\/0 offset 7/);
});

test("a commit that came before records flow opens the task anew", async (t) => {
  const it = new Timed();
  it.go.open();
  const s = await staged(t, it.worker);
  let task = await whole(s);
  await s.waiting();
  s.pass(60_000);
  const { id, task: name, epoch } = (await s.fake.commit()).message;
  s.fake.send({ type: "error", code: "not_allowed", message: "no", re: id, task: name, epoch });
  const error = await s.fake.expect("error");
  assert.deepEqual([error.task, error.code], ["words/0", "worker_failed"]);
  s.fake.lose(task, error.code);
  task = await s.open("words");
  s.records(task, "words", ...pairs("a"));
  await s.commit();
});

test("a handler that does not end does not keep a run that fails", async (t) => {
  const it = new App();
  const [s] = await held(t, it, ["a", "wait"], { commitIntervalMs: 60_000 });
  await s.fake.close(CloseCode.Superseded);
  await assert.rejects(s.work, Superseded);
});

test("commits before their time leave no timers behind", async (t) => {
  const it = new App();
  const limits = {
    maxFrame: 1 << 20,
    maxControl: 1 << 20,
    maxCommitBytes: 4096,
    maxOutstandingCommits: 2,
  };
  const s = await staged(t, it.worker, { commitIntervalMs: 3_600_000, limits });
  const words = Array.from({ length: 40 }, (_, i) => pair(String(i), "x".repeat(1000)));
  s.records(await s.open("words"), "words", ...words);
  for (let i = 0; i < 12; i++) {
    await s.commit();
  }
  assert.ok(s.clock.size <= 2);
});

test("a handler gives up when its task is revoked", async (t) => {
  const worker = new Worker({ group: "g" });
  const [inside, signals] = [new Gate(), new Set<AbortSignal>()];
  worker.each(worker.topic("words", text), async ({ value }, ctx) => {
    signals.add(ctx.signal);
    if (value === "long") {
      inside.open();
      await sleep(3_600_000, null, { signal: ctx.signal });
    }
  });
  const s = await staged(t, worker);
  const task = await s.open("words");
  s.records(task, "words", ...pairs("a", "long", "b"));
  await inside.opened;
  s.fake.revoke(task);
  assert.deepEqual(positionsOf(await s.commit()), { words: 1 });
  await s.fake.expect("released");
  assert.equal(s.runtime.failure, null);
  assert.deepEqual(
    Array.from(signals, ({ aborted }) => aborted),
    [true],
  );
});

test("what fails for another reason while its task is revoked has failed", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker);
  const task = await s.open("words");
  it.take = async (_key, _value, ctx) => {
    assert.ok(!ctx.signal.aborted);
    it.inside.open();
    await it.go.opened;
    throw new RangeError("no such word");
  };
  s.records(task, "words", ...pairs("a"));
  await it.inside.opened;
  s.fake.revoke(task);
  await s.fake.expectNothing();
  it.go.open();
  await assert.rejects(s.work, /no such word/);
});

test("signal and stale tell that a task is lost", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker);
  const task = await s.open("words");
  const told = new Gate();
  it.take = async (_key, _value, ctx) => {
    it.inside.open();
    await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
    it.calls.push(`${ctx.stale} ${ctx.signal.reason.name}: ${ctx.signal.reason.message}`);
    told.open();
  };
  s.records(task, "words", ...pairs("a"));
  await it.inside.opened;
  s.fake.lose(task);
  await told.opened;
  assert.deepEqual(it.calls, ["true AbortError: task words/0 is lost; its records come again"]);
});

test("a context is of no use after its call, also while another one goes on", async (t) => {
  const worker = new Worker({ group: "g" });
  const counts = worker.table("counts", text);
  const [inside, go] = [new Gate(), new Gate()];
  let left: Promise<unknown> = Promise.resolve();
  worker.each(worker.topic("words", text), { tables: [counts] }, function onWord({ value }, ctx) {
    if (value === "first") {
      left = inside.opened.then(() => ctx.table(counts).set("k", "late"));
      return undefined;
    }
    inside.open();
    return go.opened;
  });
  const s = await staged(t, worker);
  s.records(await s.open("words"), "words", ...pairs("first", "second"));
  await inside.opened;
  await assert.rejects(left, /the context of onWord is used after it has returned/);
  go.open();
  assert.deepEqual(rowsOf(await s.commit()), {});
});

test("records that take long let other tasks and the event loop turn", async (t) => {
  const it = new App();
  const turns: number[] = [];
  it.take = async (_key, value) => {
    it.calls.push(value);
    s.pass(21); // and nothing here that waits for the loop
    await Promise.resolve();
  };
  const s = await staged(t, it.worker);
  const [one, two] = [await s.open("words", 0), await s.open("words", 1)];
  const words = (name: string) => pairs(...Array.from({ length: 50 }, (_, i) => `${name}${i}`));
  let looking = true;
  const look = (): void => {
    turns.push(it.calls.length);
    if (looking) {
      setImmediate(look);
    }
  };
  look();
  s.records(one, "words", ...words("a"));
  s.records(two, "words", ...words("b"));
  await until(() => it.calls.length === 100);
  looking = false;
  assert.ok(new Set(turns).size > 40, `${new Set(turns).size} turns`);
  const last = it.calls.findLastIndex((each) => each.startsWith("a"));
  assert.ok(it.calls.findIndex((each) => each.startsWith("b")) < last, "one after the other");
});
