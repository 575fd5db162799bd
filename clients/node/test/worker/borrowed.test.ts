/** Serdes of the user that give bytes which are not theirs to give away. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Serde, str } from "../../src/serdes/index.js";
import { MemoryStores } from "../../src/stores/index.js";
import { TestDriver } from "../../src/testing/index.js";
import { HandlerFailed } from "../../src/worker/policy.js";
import { Worker } from "../../src/worker/worker.js";

const scratch = Buffer.alloc(16);

/** Writes into one buffer, as encoders that avoid garbage do. */
const scratching: Serde<string> = {
  encode: (value) => scratch.subarray(0, scratch.write(value)),
  decode: (data) => data.toString(),
};

/** Gives the memory of the value itself. */
const floats: Serde<Float64Array> = {
  encode: (value) => new Uint8Array(value.buffer),
  decode: (data) => new Float64Array(Uint8Array.from(data).buffer),
};

test("a serde may use its buffer again", async () => {
  const worker = new Worker({ group: "g" });
  const words = worker.topic("words", { key: str(), value: str() });
  const out = worker.output("out", { key: scratching, value: scratching });
  const table = worker.table("table", { key: scratching, value: scratching });
  worker.each(words, { tables: [table] }, ({ key, value }, ctx) => {
    ctx.send(out, { key, value });
    ctx.table(table).set(key ?? "", value ?? "");
  });
  await using driver = new TestDriver(worker);
  const given: [string, string][] = [
    ["a", "one"],
    ["b", "two"],
    ["c", "three"],
  ];
  await driver.sendMany(words, given);
  assert.deepEqual(
    driver.outputs(out),
    given.map(([, value], i) => [given[i]?.[0], value]),
  );
  assert.deepEqual([...driver.table(table)], given);
});

test("a value that a handler goes on to change is not changed in the table", async () => {
  const worker = new Worker({ group: "g" });
  const words = worker.topic("words", { key: str(), value: str() });
  const table = worker.table("table", { key: str(), value: floats });
  const value = new Float64Array(1);
  const seen: (number | undefined)[] = [];
  worker.each(words, { tables: [table] }, ({ key }, ctx) => {
    const rows = ctx.table(table);
    if (key === "c") {
      seen.push(rows.get("a")?.[0], rows.get("b")?.[0]);
    }
    value[0] = (value[0] ?? 0) + 1;
    rows.set(key ?? "", value);
  });
  await using driver = new TestDriver(worker, { stores: new MemoryStores() });
  await driver.sendMany(words, [
    ["a", "v"],
    ["b", "v"],
  ]);
  await driver.send(words, "c", "v");
  assert.deepEqual(seen, [1, 2]);
});

test("a serde that gives no bytes is told so", async () => {
  const text = { encode: JSON.stringify, decode: JSON.parse } as unknown as Serde<string>;
  const worker = new Worker({ group: "g" });
  const words = worker.topic("words", { key: str(), value: str() });
  const out = worker.output("out", { key: str(), value: text });
  worker.each(words, ({ value }, ctx) => ctx.send(out, { key: "k", value }));
  const driver = new TestDriver(worker);
  await assert.rejects(driver.send(words, "k", "v"), (error: Error) => {
    assert.ok(error instanceof HandlerFailed);
    assert.match(error.message, /a value for output 'out' cannot be written: .*no bytes/);
    return true;
  });
});
