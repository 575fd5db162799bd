/** TestDriver: time, rebalances, crashes, commits that fail, and handlers that do. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, test } from "node:test";
import { int, json, str, t, Worker } from "../../src/index.js";
import { turn } from "../../src/signal.js";
import { Engine } from "../../src/testing/engine.js";
import { TestDriver } from "../../src/testing/index.js";
import { copier, words } from "./words.js";

// -- time

test("calls by time are made when they are due", async () => {
  const worker = new Worker({ group: "g" });
  const lines = worker.topic("lines", { key: str(), value: str() });
  const open = worker.table("open", { key: str(), value: int() });
  const out = worker.output("out", { key: str(), value: int() });
  const calls: string[] = [];
  worker.each(lines, { tables: [open] }, ({ key }, ctx) => {
    ctx.table(open).set(key ?? "", 0);
  });
  worker.every({ seconds: 10 }, async (ctx) => {
    calls.push("grow");
    await Promise.resolve();
    const rows = ctx.table(open);
    for (const [key, age] of [...rows]) {
      rows.set(key, age + 10);
    }
  });
  worker.every({ minutes: 1 }, (ctx) => {
    calls.push("close");
    const rows = ctx.table(open);
    for (const [key, age] of [...rows]) {
      ctx.send(out, { key, value: age });
      rows.delete(key);
    }
  });
  const count = (name: string): number => calls.filter((each) => each === name).length;
  await using driver = new TestDriver(worker);
  await driver.send(lines, "a", "x");
  await driver.advance({ seconds: 9 });
  assert.deepEqual(calls, []);
  await driver.advance({ seconds: 1 });
  assert.deepEqual(calls, ["grow"]);
  assert.deepEqual([...driver.table(open)], [["a", 10]]);
  await driver.advance({ minutes: 1 });
  assert.equal(count("grow"), 7);
  const [record] = driver.records(out);
  assert.deepEqual([record?.key, record?.value, record?.timestamp], ["a", 60, 1_700_000_060_000]);
  assert.equal(driver.table(open).size, 0);
  await driver.advance({ hours: 1 });
  assert.deepEqual([count("grow"), count("close")], [7 + 360, 61]);
});

test("time stands still whatever is sent", async () => {
  const { worker, lines, copies } = copier();
  const calls: number[] = [];
  worker.each(lines, ({ key }, ctx) => ctx.send(copies, { key }));
  worker.every({ seconds: 0.01 }, ({ partition }) => calls.push(partition));
  await using driver = new TestDriver(worker, { partitions: 2 });
  for (let i = 0; i < 600; i++) {
    await driver.send(lines, "a", "x");
  }
  assert.deepEqual(calls, []);
  const times = new Set(driver.records(copies).map(({ timestamp }) => timestamp));
  assert.deepEqual([...times], [1_700_000_000_000]);
  await driver.advance({ seconds: 0.01 });
  assert.deepEqual(calls.sort(), [0, 1]);
});

test("a call by time that fails ends the worker", async () => {
  const { worker, lines } = copier();
  worker.each(lines, () => {});
  worker.every({ seconds: 1 }, function tick() {
    throw new TypeError("too late");
  });
  await using driver = new TestDriver(worker);
  await assert.rejects(driver.advance({ seconds: 1 }), {
    name: "HandlerFailed",
    message: /tick has failed in task lines\/0.*too late/,
  });
  await driver.restart();
  await driver.advance({ seconds: 0.5 });
  await driver.send(lines, "a", "x");
});

// -- rebalances and crashes

test("a restart as the first use is a start", async () => {
  const { worker, lines } = copier();
  worker.each(lines, () => {});
  let assigned = 0;
  worker.watch(({ type }) => {
    assigned += type === "assigned" ? 1 : 0;
  });
  await using driver = new TestDriver(worker);
  await driver.restart();
  assert.equal(assigned, 1);
});

describe("tables go on behind", () => {
  const moves: Record<string, (driver: TestDriver) => Promise<void>> = {
    revoke: (driver) => driver.revoke(1),
    lose: (driver) => driver.lose(1),
    restart: (driver) => driver.restart(),
    "standby and promote": async (driver) => {
      await driver.standby(1);
      await driver.promote(1);
    },
  };
  for (const [name, move] of Object.entries(moves)) {
    test(name, async () => {
      const w = words();
      await using driver = new TestDriver(w.worker, { partitions: 2 });
      await driver.send(w.lines, "k", "a b", { partition: 1 });
      await driver.send(w.lines, "k", "c", { partition: 0 });
      await move(driver);
      await driver.send(w.lines, "k", "a", { partition: 1 });
      const rows = (partition: number) => Object.fromEntries(driver.table(w.counts, { partition }));
      assert.deepEqual([rows(0), rows(1)], [{ c: 1 }, { a: 2, b: 1 }]);
      assert.deepEqual(
        driver.outputs(w.changes).map(([key]) => key),
        ["a", "b", "c", "a"],
      );
    });
  }
});

test("a copy does nothing until it is promoted", async () => {
  const w = words();
  await using driver = new TestDriver(w.worker, { partitions: 2 });
  const rows = (partition: number) => Object.fromEntries(driver.table(w.counts, { partition }));
  await driver.send(w.lines, "k", "a", { partition: 0 });
  await driver.standby(0);
  await driver.send(w.lines, "k", "a", { partition: 0 });
  await driver.send(w.lines, "k", "a", { partition: 1 });
  assert.deepEqual([rows(0), rows(1)], [{ a: 1 }, { a: 1 }]);
  await driver.revoke(0);
  await driver.promote(0);
  assert.deepEqual(rows(0), { a: 2 });
});

/** Count three records of one batch; with the first x something happens meanwhile. */
async function inside(call: (driver: TestDriver) => void): Promise<(string | null)[][]> {
  const calls = [call];
  const w = words((line) => {
    if (line === "x") {
      calls.pop()?.(driver);
    }
  });
  await using driver = new TestDriver(w.worker);
  await driver.send(w.lines, "k", "a");
  await driver.sendMany(w.lines, [
    ["k", "a"],
    ["k", "x"],
    ["k", "a"],
  ]);
  assert.deepEqual(Object.fromEntries(driver.table(w.counts)), { a: 3, x: 1 });
  assert.deepEqual(driver.outputs(w.changes), [
    ["a", 1],
    ["a", 2],
    ["x", 1],
    ["a", 3],
  ]);
  return w.seen;
}

test("a revoke inside of a handler lets it finish", async () => {
  const seen = await inside((driver) => void driver.revoke());
  assert.deepEqual(seen, [["a"], ["a", "x", "a"]]);
});

test("a loss inside of a handler has its records come again", async () => {
  const seen = await inside((driver) => {
    void driver.lose();
    void driver.lose(); // it is gone already
  });
  assert.deepEqual(seen, [["a"], ["a", "x", "a"], ["a", "x", "a"]]);
});

test("an async handler can see that its task has gone", async () => {
  const { worker, lines, copies } = copier();
  const stale: boolean[] = [];
  worker.process(lines, async (_batch, ctx) => {
    if (stale.length === 0) {
      const lost = once(ctx.signal, "abort");
      await driver.lose();
      await lost;
    }
    stale.push(ctx.stale);
    ctx.send(copies, { key: "k" });
  });
  await using driver = new TestDriver(worker);
  await driver.send(lines, "k", "v");
  assert.deepEqual(stale, [true, false]);
  assert.deepEqual(driver.outputs(copies), [["k", null]]);
});

test("a connection that breaks without the test's doing is told", async () => {
  const w = words();
  const engine = new Engine(w.worker, 1, undefined, 300);
  await engine.start();
  engine.sidecar.now.link.cut();
  await turn(); // in which both ends hear of it
  await assert.rejects(engine.settle(), /nothing of the worker within 0.3 s: it is not connected/);
  await engine.kill();
});

// -- commits

test("an aborted commit is made again", async () => {
  const w = words();
  await using driver = new TestDriver(w.worker);
  await driver.send(w.lines, "k", "a");
  driver.abortNextCommit();
  await driver.send(w.lines, "k", "a b");
  assert.deepEqual(w.seen, [["a"], ["a b"], ["a b"]]);
  assert.deepEqual(Object.fromEntries(driver.table(w.counts)), { a: 2, b: 1 });
  const once = [
    ["a", 1],
    ["a", 2],
    ["b", 1],
  ];
  assert.deepEqual(driver.outputs(w.changes), once);
  assert.deepEqual(driver.changelog(w.counts), once);
});

for (const landed of [true, false]) {
  test(`an unknown commit that ${landed ? "landed" : "did not land"}`, async () => {
    const w = words();
    await using driver = new TestDriver(w.worker);
    await driver.send(w.lines, "k", "a");
    driver.unknownNextCommit(landed);
    await driver.send(w.lines, "k", "a");
    await driver.send(w.lines, "k", "a");
    assert.deepEqual([...driver.table(w.counts)], [["a", 3]]);
    assert.equal(w.seen.length, landed ? 3 : 4);
  });
}

// -- handlers that fail

test("a batch that fails is undone and comes again", async () => {
  const poison = new Set(["boom"]);
  const w = words((line) => {
    if (poison.has(line)) {
      throw new TypeError(`${line}!`);
    }
  });
  await using driver = new TestDriver(w.worker);
  await driver.send(w.lines, "k", "a");
  const batch = [
    ["k", "a"],
    ["k", "boom"],
    ["k", "a"],
  ] as const;
  await assert.rejects(driver.sendMany(w.lines, batch), (error: Error) => {
    assert.equal(error.name, "HandlerFailed");
    assert.match(error.message, /count has failed.*lines\/0.*boom!/);
    assert.ok(error.cause instanceof TypeError);
    return true;
  });
  assert.deepEqual([...driver.table(w.counts)], [["a", 1]]);
  await assert.rejects(driver.send(w.lines, "k", "a"), (error: Error) => {
    assert.match(error.message, /the worker has ended; restart/);
    assert.equal((error.cause as Error).name, "HandlerFailed");
    return true;
  });
  await assert.rejects(driver.restart(), { name: "HandlerFailed" });
  poison.clear();
  await driver.restart();
  assert.deepEqual(Object.fromEntries(driver.table(w.counts)), { a: 3, boom: 1 });
});

test("a record that fails is undone alone", async () => {
  const { worker, lines, copies } = copier();
  const lists = worker.table("lists", {
    key: str(),
    value: json(t.list(t.str)),
    default: () => [],
  });
  let healed = false;
  worker.each(lines, { tables: [lists] }, ({ key, value }, ctx) => {
    ctx
      .table(lists)
      .get("all")
      .push(key ?? "");
    ctx.send(copies, { key });
    if (value === "boom" && !healed) {
      throw new TypeError("boom!");
    }
  });
  await using driver = new TestDriver(worker);
  const pairs = [
    ["a", "x"],
    ["b", "boom"],
    ["c", "x"],
  ] as const;
  await assert.rejects(driver.sendMany(lines, pairs), {
    name: "HandlerFailed",
    message: /lines\/0 offset 1/,
  });
  assert.deepEqual([...driver.table(lists)], [["all", ["a"]]]);
  assert.deepEqual(driver.outputs(copies), [["a", null]]);
  healed = true;
  await driver.restart();
  assert.deepEqual([...driver.table(lists)], [["all", ["a", "b", "c"]]]);
  assert.deepEqual(
    driver.outputs(copies).map(([key]) => key),
    ["a", "b", "c"],
  );
});

test("an undeclared output fails the test", async () => {
  const { worker, lines } = copier();
  const foreign = copier("h").copies;
  worker.each(lines, ({ key }, ctx) => ctx.send(foreign, { key }));
  await using driver = new TestDriver(worker);
  await assert.rejects(driver.send(lines, "a", "x"), {
    name: "UsageError",
    message: /'copies', which is no output of this worker/,
  });
});

test("a table that the handler does not name fails the test", async () => {
  const { worker, lines } = copier();
  const others = worker.topic("others", { key: str(), value: str() });
  const counts = worker.table("counts", { key: str(), value: int() });
  worker.each(lines, (_record, ctx) => void ctx.table(counts).set("a", 1));
  worker.each(others, { tables: [counts] }, (_record, ctx) => void ctx.table(counts).set("a", 1));
  await using driver = new TestDriver(worker);
  await driver.send(others, "a", "x");
  assert.deepEqual([...driver.table(counts)], [["a", 1]]);
  await assert.rejects(driver.send(lines, "a", "x"), {
    name: "UsageError",
    message: /table 'counts' without declaring it/,
  });
});

test("poison stops at exactly the record", async () => {
  const worker = new Worker({ group: "g" });
  const numbers = worker.topic("numbers", { key: str(), value: int() });
  const sums = worker.table("sums", { key: str(), value: int(), default: () => 0 });
  worker.process(numbers, { tables: [sums] }, (batch, ctx) => {
    const rows = ctx.table(sums);
    for (const [key, value] of batch.items()) {
      rows.set(key ?? "", rows.get(key ?? "") + (value ?? 0));
    }
  });
  await using driver = new TestDriver(worker);
  await driver.send(numbers, "a", 1);
  const poison = driver.sendRaw(numbers, Buffer.from("a"), Buffer.from("no number"));
  await assert.rejects(poison, {
    name: "HandlerFailed",
    message: /numbers\/0 offset 1 cannot be processed/,
  });
  assert.deepEqual([...driver.table(sums)], [["a", 1]]);
});
