/** onError at a sidecar: what happens to a record that cannot be processed, and to what it has done. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Header } from "../../src/headers.js";
import { bytes, int, json, t as shape, str } from "../../src/serdes/index.js";
import type { FakeCommit, PairInit } from "../../src/testing/index.js";
import { recordsOf } from "../../src/testing/writes.js";
import type { Context } from "../../src/worker/context.js";
import { silent } from "../../src/worker/logging.js";
import type { WorkerOptions } from "../../src/worker/options.js";
import {
  deadLetter,
  type Failure,
  HandlerFailed,
  type OnError,
  skip,
  stop,
} from "../../src/worker/policy.js";
import { Worker } from "../../src/worker/worker.js";
import { positionsOf, rowsOf, staged } from "./working.js";

const ONE = Buffer.from([0, 0, 0, 0, 0, 0, 0, 1]);

function record(key: string, value: string | Buffer = ONE): PairInit {
  return [Buffer.from(key), Buffer.from(value)];
}

const RECORDS = [record("a"), record("b", "bad"), record("fail"), record("d")];

interface Given extends WorkerOptions {
  readonly batches?: boolean;
  /** Of the handler. */
  readonly policy?: (dead: ReturnType<App["makeDead"]>) => OnError;
}

/** Adds numbers up; the key "fail" fails after it has written. */
class App {
  readonly worker: Worker;
  readonly sums;
  readonly out;
  readonly seen: string[] = [];
  readonly offsets: number[] = [];

  constructor({ batches = false, policy, ...given }: Given = {}) {
    const worker = new Worker({ group: "g", ...given });
    this.worker = worker;
    const numbers = worker.topic("numbers", { key: str(), value: int() });
    this.sums = worker.table("sums", { key: str(), value: int(), default: () => 0 });
    this.out = worker.output("out", { key: str(), value: int() });
    const onError = policy?.(this.makeDead());
    const app = this;
    const options = { tables: [this.sums], onError };
    if (batches) {
      worker.process(numbers, options, function onNumbers(batch, ctx) {
        for (const { key, value, offset } of batch) {
          app.add(key, value, offset, ctx);
        }
      });
    } else {
      worker.each(numbers, options, function onNumber({ key, value, offset }, ctx) {
        app.add(key, value, offset, ctx);
      });
    }
  }

  makeDead() {
    return this.worker.output("dead", { key: bytes(), value: bytes() });
  }

  add(key: string | null, value: number | null, offset: number, ctx: Context): void {
    assert.ok(key !== null && value !== null);
    this.seen.push(key);
    this.offsets.push(offset);
    const rows = ctx.table(this.sums);
    rows.set("all", rows.get("all") + value);
    ctx.send(this.out, { key, value });
    if (key === "fail") {
      throw new RangeError("this one");
    }
  }

  /** Run until one batch is committed. */
  async play(t: TestContext, records: readonly PairInit[] = RECORDS): Promise<FakeCommit> {
    const s = await staged(t, this.worker);
    s.records(await s.open("numbers"), "numbers", ...records);
    return await s.commit();
  }
}

/** What the table's only row says. */
function total({ changelog }: FakeCommit): number {
  const [row, ...others] = changelog.get("sums") ?? [];
  assert.deepEqual([String(row?.[0]), others], ["all", []]);
  return Number(row?.[1]?.readBigInt64BE());
}

function keysOf({ outputs }: FakeCommit, topic: string): string[] {
  return (outputs.get(topic) ?? []).map(([key]) => String(key));
}

/** The headers of the records of a commit that have some. */
function headersOf({ frames }: FakeCommit): Header[][] {
  const all = frames.flatMap((frame) => recordsOf(frame, (batch, row) => batch.headersAt(row)));
  return all.filter((headers) => headers.length > 0);
}

test("skip", async (t) => {
  const it = new App({ onError: skip() });
  const commit = await it.play(t);
  assert.deepEqual([total(commit), it.seen], [2, ["a", "fail", "d"]]);
  assert.deepEqual(keysOf(commit, "out"), ["a", "d"]);
  assert.deepEqual(positionsOf(commit), { numbers: 4 });
});

test("skipping is logged, with the stack once for each place", async (t) => {
  const said: [boolean, string][] = [];
  const warn = (facts: object, sentence: string) => void said.push(["err" in facts, sentence]);
  const it = new App({ onError: skip(), logger: { ...silent, warn } });
  await it.play(t, [...RECORDS, record("fail")]);
  assert.match(said[0]?.[1] ?? "", /^numbers\/0 offset 1 is skipped: its value does not decode: /);
  assert.deepEqual(
    said.map(([stack]) => stack),
    [false, true, false],
  );
  assert.deepEqual(
    said.slice(1).map(([, sentence]) => sentence),
    [2, 4].map(
      (offset) => `numbers/0 offset ${offset} is skipped: onNumber has thrown RangeError: this one`,
    ),
  );
});

test("dead letters", async (t) => {
  const it = new App({ policy: deadLetter });
  const commit = await it.play(t);
  assert.equal(total(commit), 2);
  assert.deepEqual(commit.outputs.get("dead"), [
    [Buffer.from("b"), Buffer.from("bad")],
    [Buffer.from("fail"), ONE],
  ]);
  const [first, second] = headersOf(commit);
  assert.match(String(first?.[0]?.[1]), /^its value does not decode: /);
  assert.deepEqual(
    second?.map(([name, value]) => [name, String(value)]),
    [
      ["pillion-error", "RangeError: this one"],
      ["pillion-topic", "numbers"],
      ["pillion-partition", "0"],
      ["pillion-offset", "2"],
    ],
  );
});

test("a function decides", async (t) => {
  const told: Failure[] = [];
  const it = new App({
    onError: (failure) => {
      told.push(failure);
      return failure.decoding ? skip() : stop();
    },
  });
  const commit = await it.play(t);
  assert.deepEqual([total(commit), positionsOf(commit)], [1, { numbers: 2 }]);
  assert.deepEqual(
    told.map(({ topic, partition, offset, decoding, key, value }) => [
      `${topic}/${partition} ${offset}`,
      decoding,
      String(key),
      value,
    ]),
    [
      ["numbers/0 1", true, "b", Buffer.from("bad")],
      ["numbers/0 2", false, "fail", ONE],
    ],
  );
  assert.ok(told[1]?.error instanceof RangeError);
});

test("a function that fails stops", async (t) => {
  const wrong: [OnError, RegExp][] = [
    [
      () => {
        throw new RangeError("cannot decide");
      },
      /onError of onNumber has failed for numbers\/0 offset 1: RangeError: cannot decide/,
    ],
    [
      (() => Promise.resolve(skip())) as unknown as OnError,
      /onError of onNumber has failed for numbers\/0 offset 1: TypeError: onError gave /,
    ],
  ];
  for (const [onError, sentence] of wrong) {
    const it = new App({ onError });
    const s = await staged(t, it.worker);
    s.records(await s.open("numbers"), "numbers", ...RECORDS);
    assert.deepEqual(positionsOf(await s.commit()), { numbers: 1 });
    await assert.rejects(s.work, sentence);
  }
});

test("what does not decode stops at that record", async (t) => {
  for (const batches of [false, true]) {
    const it = new App({ batches });
    const s = await staged(t, it.worker);
    s.records(await s.open("numbers"), "numbers", ...RECORDS);
    const commit = await s.commit();
    assert.deepEqual([total(commit), positionsOf(commit)], [1, { numbers: 1 }]);
    const failed: unknown = await s.work.catch((error: unknown) => error);
    assert.ok(failed instanceof HandlerFailed);
    assert.equal(failed.code, "undecodable");
    assert.match(
      failed.message,
      /^the record at numbers\/0 offset 1 cannot be processed: its value/,
    );
  }
});

test("process() passes over what does not decode, and keeps offsets", async (t) => {
  const it = new App({ onError: skip(), batches: true });
  const records = [record("a", "x"), record("b"), record("c", "y"), record("d")];
  const commit = await it.play(t, records);
  assert.deepEqual([total(commit), it.seen, it.offsets], [2, ["b", "d"], [1, 3]]);
});

test("process() keeps what is before the record that it stops at", async (t) => {
  const onError = ({ key }: Failure) => (String(key) === "a" ? skip() : stop());
  const it = new App({ onError, batches: true });
  const records = [record("a", "x"), record("b"), record("c", "y"), record("d")];
  const commit = await it.play(t, records);
  assert.deepEqual([total(commit), it.seen], [1, ["b"]]);
  assert.deepEqual(positionsOf(commit), { numbers: 2 });
});

test("process() does not skip a batch", async (t) => {
  const it = new App({ onError: skip(), batches: true });
  const s = await staged(t, it.worker);
  s.records(await s.open("numbers"), "numbers", ...RECORDS);
  await assert.rejects(s.work, HandlerFailed);
  assert.deepEqual(s.fake.pending(), []);
});

test("a batch of nothing but skipped records moves the position", async (t) => {
  for (const batches of [false, true]) {
    const it = new App({ onError: skip(), batches });
    const commit = await it.play(t, [record("a", "x"), record("b", "y")]);
    assert.deepEqual([rowsOf(commit), positionsOf(commit)], [{}, { numbers: 2 }]);
  }
});

test("a value that does not encode is an error of its record", async (t) => {
  const worker = new Worker({ group: "g", onError: skip() });
  const numbers = worker.topic("numbers", { key: str(), value: int() });
  const lists = worker.table("lists", {
    key: str(),
    value: json(shape.list(shape.int)),
    default: () => [],
  });
  worker.each(numbers, { tables: [lists] }, ({ key, value }, ctx) => {
    ctx
      .table(lists)
      .get("all")
      .push((key === "fail" ? key : value) as number);
  });
  const s = await staged(t, worker);
  s.records(await s.open("numbers"), "numbers", record("a"), record("fail"), record("b"));
  assert.deepEqual(rowsOf(await s.commit()), { lists: [["all", "[1,1]"]] });
});

test("an error of the program is told, whatever the policy says", async (t) => {
  const worker = new Worker({ group: "g", onError: skip() });
  const numbers = worker.topic("numbers", { key: str(), value: int() });
  const other = new Worker().table("sums", { key: str(), value: int() });
  worker.each(numbers, function onNumber(_, ctx) {
    ctx.table(other);
  });
  const s = await staged(t, worker);
  s.records(await s.open("numbers"), "numbers", record("a"));
  await assert.rejects(s.work, /^UsageError: onNumber uses table 'sums' without declaring it/);
});
