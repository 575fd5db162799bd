/** What belongs to another worker, where only a run can tell. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageError } from "../../src/errors.js";
import { bytes, int, str } from "../../src/serdes/index.js";
import { TestDriver } from "../../src/testing/index.js";
import { deadLetter, HandlerFailed } from "../../src/worker/policy.js";
import { Worker } from "../../src/worker/worker.js";
import { pair, positionsOf, staged } from "./working.js";

const other = new Worker({ group: "other" });
const dead = other.output("dead", { key: bytes(), value: bytes() });
const totals = other.table("totals", { key: str(), value: int() });

test("dead letters go to no output of another worker, and what was before is committed", async (t) => {
  const worker = new Worker({ group: "g" });
  const numbers = worker.topic("numbers", { key: str(), value: str() });
  worker.each(numbers, { onError: () => deadLetter(dead) }, ({ value }) => {
    assert.equal(value, "good");
  });
  const s = await staged(t, worker);
  const task = await s.open("numbers");
  s.records(task, "numbers", pair("k", "good"), pair("k", "bad"));
  assert.deepEqual(positionsOf(await s.commit()), { numbers: 1 });
  await assert.rejects(s.work, (error: Error) => {
    assert.ok(error instanceof HandlerFailed);
    assert.match(error.message, /'dead', which output\(\) of this worker did not make/);
    return true;
  });
});

test("a table of another worker has no rows here, and is not taken for an empty one", async () => {
  const worker = new Worker({ group: "g" });
  const words = worker.topic("words", { key: str(), value: str() });
  const counts = worker.table("totals", { key: str(), value: int() });
  worker.each(words, { tables: [counts] }, (_, ctx) => void ctx.table(counts).set("k", 1));
  await using driver = new TestDriver(worker);
  await driver.send(words, "k", "v");
  assert.equal(worker.local(counts).get("k"), 1);
  assert.throws(
    () => worker.local(totals),
    (error: Error) => error instanceof UsageError && /no table of this worker/.test(error.message),
  );
});
