/** TestDriver: each of its methods, with workers as users write them. */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { int, SqliteStores, str, Worker } from "../../src/index.js";
import { TestDriver } from "../../src/testing/index.js";
import { copier, words } from "./words.js";

function usage(message: RegExp) {
  return { name: "UsageError", message };
}

/** A promise, and what resolves it. */
function wanted(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((yes) => {
    resolve = yes;
  });
  return { promise, resolve };
}

test("what was sent is processed and committed", async () => {
  const w = words();
  await using driver = new TestDriver(w.worker);
  await driver.send(w.lines, "k", "to be or not to be");
  const counts = { to: 2, be: 2, or: 1, not: 1 };
  assert.deepEqual(driver.table(w.counts), new Map(Object.entries(counts)));
  assert.deepEqual(driver.outputs(w.changes), [
    ["to", 1],
    ["be", 1],
    ["or", 1],
    ["not", 1],
    ["to", 2],
    ["be", 2],
  ]);
  await driver.send(w.lines, "k", "be");
  assert.deepEqual(driver.outputs(w.changes).at(-1), ["be", 3]);
  driver.clear();
  assert.deepEqual(driver.outputs(w.changes), []);
  await driver.send(w.lines, null, "be");
  assert.deepEqual(driver.outputs(w.changes), [["be", 4]]);
});

test("a changelog has one write for each key and commit", async () => {
  const w = words();
  await using driver = new TestDriver(w.worker);
  await driver.sendMany(w.lines, [
    ["k", "a a"],
    [null, null],
    ["k", "b a"],
  ]);
  assert.deepEqual(w.seen, [["a a", null, "b a"]]);
  const first = [
    ["a", 3],
    ["b", 1],
  ];
  assert.deepEqual(driver.changelog(w.counts), first);
  await driver.send(w.lines, "k", "a");
  assert.deepEqual(driver.changelog(w.counts), [...first, ["a", 4]]);
});

test("records go to the partition of their key", async () => {
  // The hashes are those of Kafka's own test.
  const hashes = { "21": -973932308, foobar: -790332482, abc: 479470107 };
  const w = words();
  await using driver = new TestDriver(w.worker, { partitions: 3 });
  for (const key of Object.keys(hashes)) {
    await driver.send(w.lines, key, "x");
  }
  await driver.send(w.lines, null, "x");
  await driver.send(w.lines, "abc", "y", { partition: 1 });
  const expected = [0, 1, 2].map(() => new Map<string, number>());
  expected[0]?.set("x", 1);
  for (const hash of Object.values(hashes)) {
    const rows = expected[(hash & 0x7fffffff) % 3];
    rows?.set("x", (rows.get("x") ?? 0) + 1);
  }
  expected[1]?.set("y", 1);
  const counts = [0, 1, 2].map((partition) => driver.table(w.counts, { partition }));
  assert.deepEqual(counts, expected);
  const there = usage(/no partition 3; there are 3/);
  await assert.rejects(driver.send(w.lines, "k", "x", { partition: 3 }), there);
});

test("records have headers and timestamps", async () => {
  const { worker, lines, copies } = copier();
  worker.each(lines, ({ key, headers, timestamp }, ctx) => {
    const stamp = headers.length > 0 && timestamp !== undefined ? { timestamp } : {};
    ctx.send(copies, { key, headers, ...stamp });
  });
  await using driver = new TestDriver(worker);
  const headers = [
    ["h", Buffer.from("1")],
    ["h", null],
  ] as const;
  await driver.send(lines, "k", "v", { headers, timestamp: 5 });
  await driver.advance({ seconds: 2 });
  await driver.send(lines, "l");
  const at = { value: null, topic: "copies", partition: 0 };
  assert.deepEqual(driver.records(copies), [
    { ...at, key: "k", offset: 0, timestamp: 5, headers },
    { ...at, key: "l", offset: 1, timestamp: 1_700_000_002_000, headers: [] },
  ]);
});

test("async handlers work and may wait", async () => {
  const { worker, lines, copies } = copier();
  worker.process(lines, async (batch, ctx) => {
    for (const [key, value] of batch.items()) {
      await sleep(10); // longer than the driver looks at the loop alone
      ctx.send(copies, { key, value });
    }
  });
  await using driver = new TestDriver(worker, { partitions: 2 });
  const pairs = [
    ["a", "1"],
    ["b", "2"],
  ] as const;
  await driver.sendMany(lines, pairs, { partition: 0 });
  await driver.send(lines, "c", "3", { partition: 1 });
  assert.deepEqual(driver.outputs(copies), [...pairs, ["c", "3"]]);
});

test("fake timers are the handlers' alone", async (t) => {
  const { worker, lines, copies } = copier();
  const { promise: entered, resolve: enter } = wanted();
  worker.each(lines, async ({ key }, ctx) => {
    if (key === "late") {
      const late = new Promise((resolve) => setTimeout(resolve, 60_000));
      enter();
      await late;
    }
    ctx.send(copies, { key });
  });
  t.mock.timers.enable({ apis: ["setImmediate", "setInterval", "setTimeout"] });
  await using driver = new TestDriver(worker);
  await driver.send(lines, "k");
  const sent = driver.send(lines, "late");
  await entered;
  assert.deepEqual(driver.outputs(copies), [["k", null]]);
  t.mock.timers.tick(60_000);
  await sent;
  assert.deepEqual(driver.outputs(copies).at(-1), ["late", null]);
});

test("a handler that does not end is told, fake timers or not", async (t) => {
  const { worker, lines } = copier();
  worker.each(lines, () => new Promise(() => {}));
  t.mock.timers.enable({ apis: ["setImmediate", "setInterval", "setTimeout"] });
  await using driver = new TestDriver(worker, { timeoutMs: 100 });
  await assert.rejects(driver.send(lines, "k", "v"), {
    name: "AssertionError",
    message: "nothing of the worker within 0.1 s: task lines/0 has committed lines up to 0 of 1",
  });
});

test("calls that nobody awaits are made one after the other", async () => {
  const w = words();
  await using driver = new TestDriver(w.worker);
  void driver.send(w.lines, "k", "a");
  void driver.restart();
  await driver.send(w.lines, "k", "b");
  assert.deepEqual(w.seen, [["a"], ["b"]]);
});

test("two drivers one after the other, also where the first is only killed", async () => {
  const w = words();
  const one = ["a", 1] as const;
  {
    using driver = new TestDriver(w.worker);
    await driver.send(w.lines, "k", "a");
    assert.deepEqual([...driver.table(w.counts)], [one]);
  }
  {
    await using driver = new TestDriver(w.worker);
    await driver.send(w.lines, "k", "a");
    assert.deepEqual([...driver.table(w.counts)], [one]);
  }
  const driver = new TestDriver(w.worker);
  await driver.send(w.lines, "k", "a");
  const other = new TestDriver(w.worker);
  await assert.rejects(other.send(w.lines, "k", "a"), usage(/runs already/));
  await driver[Symbol.asyncDispose]();
  await driver[Symbol.asyncDispose]();
  await assert.rejects(driver.send(w.lines, "k", "a"), usage(/disposed of; make another one/));
});

test("it is disposed of while it is at work", async () => {
  const { worker, lines } = copier();
  const { promise: entered, resolve: enter } = wanted();
  const { promise: left, resolve: leave } = wanted();
  worker.each(lines, () => {
    enter();
    return left;
  });
  const driver = new TestDriver(worker);
  const sent = driver.send(lines, "k", "v");
  await entered;
  driver[Symbol.dispose]();
  await sent;
  leave();
});

// -- mistakes, ends, questions

test("errors of the test itself are said", async () => {
  const [w, other] = [words(), words()];
  await using driver = new TestDriver(w.worker);
  const said = (call: Promise<void>, message: RegExp) => assert.rejects(call, usage(message));
  await said(driver.advance({}), /advance\(\) takes a time of more than 0/);
  await said(driver.advance({ seconds: -1 }), /a time of more than 0/);
  const text = "lines" as unknown as typeof w.lines;
  await said(driver.send(text, "k", "v"), /'lines' is no source topic of this worker; give what/);
  await said(
    driver.send(other.lines, "k", "v"),
    /topic 'lines' is no source topic of this worker/i,
  );
  assert.throws(() => driver.outputs(other.changes), usage(/output 'changes' is no output/i));
  const none = usage(/table 'counts' is no table of this worker/i);
  assert.throws(() => driver.table(other.counts), none);
  assert.throws(() => driver.changelog(other.counts), none);
  const there = usage(/there is no partition 1; there are 1/);
  assert.throws(() => driver.table(w.counts, { partition: 1 }), there);
  assert.throws(() => driver.changelog(w.counts, { partition: 1 }), there);
  const foreign = other.worker.sourceTable("names", { key: str(), value: str() });
  await said(driver.put(foreign, "k", "v"), /table 'names' is no table of this worker/i);
  const kept = w.counts as never;
  await said(driver.put(kept, "k", 1), /table 'counts' is no source or global table/i);
  await said(driver.revoke(1), /no partition 1; there are 1/);
  assert.throws(() => new TestDriver(w.worker, { partitions: 0 }), usage(/partitions is 0/));
});

test("a handler cannot drive", async () => {
  const w = words(() => void driver.send(w.lines, "k", "again"));
  await using driver = new TestDriver(w.worker);
  await assert.rejects(driver.send(w.lines, "k", "x"), {
    name: "HandlerFailed",
    message: /cannot drive its own test/,
  });
});

test("a mistake in the declarations is said at once", () => {
  const { worker } = copier();
  assert.throws(() => new TestDriver(worker), usage(/topic 'lines' has no handler/));
});

test("a worker that stops itself", async () => {
  const { worker, lines, copies } = copier();
  worker.each(lines, async ({ key }, ctx) => {
    ctx.send(copies, { key });
    if (key === "stop") {
      await worker.stop();
    }
  });
  await using driver = new TestDriver(worker);
  await driver.sendMany(lines, [
    ["a", null],
    ["stop", null],
    ["b", null],
  ]);
  const first = [
    ["a", null],
    ["stop", null],
  ];
  assert.deepEqual(driver.outputs(copies), first);
  await assert.rejects(driver.send(lines, "c"), usage(/the worker has ended; restart/));
  await driver.restart();
  assert.deepEqual(driver.outputs(copies), [...first, ["b", null]]);
});

test("stores that are given stay", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "pillion-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const w = words();
  await using driver = new TestDriver(w.worker, { stores: new SqliteStores(directory) });
  await driver.send(w.lines, "k", "a b");
  await driver.restart();
  await driver.revoke();
  await driver.send(w.lines, "k", "a");
  const counts = [
    ["a", 2],
    ["b", 1],
  ] as const;
  assert.deepEqual(driver.table(w.counts), new Map(counts));
});

test("locate and local answer inside of handlers", async () => {
  const worker = new Worker({ group: "g" });
  const lines = worker.topic("lines", { key: str(), value: str() });
  const counts = worker.table("counts", { key: str(), value: int(), default: () => 0 });
  const found: [partition: number, rows: [string, number][]][] = [];
  worker.each(lines, { tables: [counts] }, async ({ key }, ctx) => {
    const rows = ctx.table(counts);
    rows.set(key ?? "", rows.get(key ?? "") + 1);
    const { partition } = await worker.locate(counts, key ?? "");
    found.push([partition, [...worker.local(counts)]]);
  });
  await using driver = new TestDriver(worker, { partitions: 5 });
  await driver.send(lines, "abc", "x");
  await driver.send(lines, "abc", "x");
  const partition = 479470107 % 5;
  assert.deepEqual(found, [
    [partition, []],
    [partition, [["abc", 1]]],
  ]);
});

test("what a topic cannot hold is refused with the topic's name", async () => {
  const w = words();
  await using driver = new TestDriver(w.worker);
  await assert.rejects(driver.send(w.lines, 7 as never, "x"), /a key of 'lines' cannot be written/);
  await assert.rejects(
    driver.send(w.lines, "k", 7 as never),
    /a value of 'lines' cannot be written: must be a string, not number/,
  );
});
