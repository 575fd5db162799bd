/** TestDriver with workers of several topics and tables, and with records that do not decode. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, deadLetter, int, skip, str, Worker } from "../../src/index.js";
import { TestDriver } from "../../src/testing/index.js";

test("source and global tables", async () => {
  const worker = new Worker({ group: "g" });
  const text = { key: str(), value: str() };
  const visits = worker.topic("visits", text);
  const names = worker.sourceTable("names", text);
  const places = worker.globalTable("places", { ...text, topic: "all-places" });
  const out = worker.output("out", text);
  worker.each(visits, { tables: [names, places] }, ({ key, value }, ctx) => {
    const name = ctx.table(names).get(key ?? "") ?? "?";
    const place = ctx.table(places).get(value ?? "") ?? "?";
    ctx.send(out, { key, value: `${name} in ${place}` });
  });
  await using driver = new TestDriver(worker, { partitions: 4 });
  await driver.send(visits, "1", "x");
  await driver.put(names, "1", "Ann");
  await driver.put(places, "x", "Oslo");
  await driver.put(places, "y", "Bergen");
  await driver.send(visits, "1", "x");
  await driver.put(names, "1", "Anna");
  await driver.put(places, "x", null);
  await driver.send(visits, "1", "x");
  await driver.send(visits, "1", "y");
  assert.deepEqual(
    driver.outputs(out).map(([, value]) => value),
    ["? in ?", "Ann in Oslo", "Anna in ?", "Anna in Bergen"],
  );
  assert.deepEqual([...driver.table(names)], [["1", "Anna"]]);
  assert.deepEqual([...driver.table(places)], [["y", "Bergen"]]);
  await driver.restart();
  await driver.send(visits, "1", "y");
  assert.deepEqual(driver.outputs(out).at(-1), ["1", "Anna in Bergen"]);
});

test("what others write is in the worker's tables when it is told to be done", async () => {
  const worker = new Worker({ group: "g" });
  const text = { key: str(), value: str() };
  const visits = worker.topic("visits", text);
  const names = worker.sourceTable("names", text);
  const places = worker.globalTable("places", text);
  worker.each(visits, { tables: [names, places] }, () => {});
  await using driver = new TestDriver(worker, { partitions: 2 });
  for (const name of ["Ann", "Anna"]) {
    await driver.put(names, "1", name);
    await driver.put(places, "x", name);
    assert.deepEqual([...worker.local(names)], [["1", name]]);
    assert.deepEqual([...worker.local(places)], [["x", name]]);
    await driver.standby(0);
    await driver.standby(1);
  }
});

test("tasks of global tables go on through a rebalance", async () => {
  const worker = new Worker({ group: "g" });
  const text = { key: str(), value: str() };
  const visits = worker.topic("visits", text);
  const places = worker.globalTable("places", text);
  worker.each(visits, { tables: [places] }, () => {});
  const ended: string[] = [];
  worker.watch((event) => {
    if (event.type === "lost" || event.type === "revoking") {
      ended.push(`${event.task.name} ${event.type}`);
    }
  });
  await using driver = new TestDriver(worker);
  await driver.revoke();
  await driver.lose();
  await driver.standby();
  await driver.revoke(); // a copy is not asked
  assert.deepEqual(ended, ["visits/0 revoking", "visits/0 lost", "visits/0 lost"]);
});

test("joined topics share a table", async () => {
  const worker = new Worker({ group: "g" });
  const numbers = { key: str(), value: int() };
  const orders = worker.topic("orders", numbers);
  const payments = worker.topic("payments", numbers);
  worker.join(orders, payments);
  const due = worker.table("due", { ...numbers, default: () => 0 });
  worker.each(orders, { tables: [due] }, ({ key, value }, ctx) => {
    const rows = ctx.table(due);
    rows.set(key ?? "", rows.get(key ?? "") + (value ?? 0));
  });
  worker.process(payments, { tables: [due] }, (batch, ctx) => {
    const rows = ctx.table(due);
    for (const [key, paid] of batch.items()) {
      const left = rows.get(key ?? "") - (paid ?? 0);
      if (left === 0) {
        rows.delete(key ?? "");
      } else {
        rows.set(key ?? "", left);
      }
    }
  });
  await using driver = new TestDriver(worker, { partitions: 2 });
  await driver.send(orders, "a", 5);
  await driver.send(orders, "b", 7);
  await driver.send(payments, "a", 2);
  const rows = (): object => Object.fromEntries(driver.table(due));
  assert.deepEqual(rows(), { a: 3, b: 7 });
  await driver.send(payments, "b", 7);
  assert.deepEqual(rows(), { a: 3 });
  const all = driver.changelog(due);
  const parts = [0, 1].flatMap((partition) => driver.changelog(due, { partition }));
  assert.deepEqual(parts, all);
  assert.deepEqual(
    all.filter(([key]) => key === "b"),
    [
      ["b", 7],
      ["b", null],
    ],
  );
});

test("what a worker writes it reads", async () => {
  const worker = new Worker({ group: "g" });
  const text = { key: str(), value: str() };
  const raw = worker.topic("raw", text);
  const clean = worker.topic("clean", text);
  const toClean = worker.output("clean", text);
  const seen = worker.table("seen", text);
  worker.each(raw, ({ key, value }, ctx) => {
    ctx.send(toClean, { key, value: (value ?? "").trim() });
  });
  worker.each(clean, { tables: [seen] }, ({ key, value }, ctx) => {
    ctx.table(seen).set(key ?? "", value ?? "");
  });
  await using driver = new TestDriver(worker, { partitions: 3 });
  await driver.send(raw, "k", "  v ", { partition: 0 });
  assert.deepEqual([...driver.table(seen)], [["k", "v"]]);
  assert.deepEqual(driver.outputs(toClean), [["k", "v"]]);
  driver.clear();
  await driver.send(raw, "k", " w", { partition: 1 });
  assert.deepEqual([...driver.table(seen)], [["k", "w"]]);
  assert.deepEqual(driver.outputs(toClean), [["k", "w"]]);
});

test("dead letters and skips", async () => {
  const worker = new Worker({ group: "g" });
  const numbers = worker.topic("numbers", { key: str(), value: int() });
  const words = worker.topic("words", { key: str(), value: str() });
  const dead = worker.output("dead", { key: bytes(), value: bytes() });
  worker.each(numbers, { onError: deadLetter(dead) }, () => {});
  worker.each(words, { onError: skip() }, () => {
    throw new TypeError("no");
  });
  await using driver = new TestDriver(worker);
  const headers = [["own", Buffer.from("1")]] as const;
  await driver.sendRaw(numbers, Buffer.from("k"), Buffer.from("ab"), { headers });
  await driver.send(words, "k", "v");
  const [letter, ...more] = driver.records(dead);
  assert.deepEqual(more, []);
  assert.deepEqual([letter?.key, letter?.value].map(String), ["k", "ab"]);
  assert.deepEqual(letter?.headers[0], headers[0]);
  const own = new Map(letter?.headers);
  assert.equal(String(own.get("pillion-offset")), "0");
});
