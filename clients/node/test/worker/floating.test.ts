/** What a handler leaves running when it ends: nothing of that gets into another one's unit. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageError } from "../../src/errors.js";
import { int, json, str } from "../../src/serdes/index.js";
import { TestDriver } from "../../src/testing/index.js";
import { skip } from "../../src/worker/policy.js";
import { Worker } from "../../src/worker/worker.js";
import { Gate } from "./working.js";

function counting() {
  const worker = new Worker({ group: "g", onError: skip() });
  const words = worker.topic("words", { key: str(), value: str() });
  const counts = worker.table("counts", { key: str(), value: int(), default: () => 0 });
  const lists = worker.table("lists", { key: str(), value: json<number[]>(), default: () => [] });
  return { worker, words, counts, lists };
}

test("a table that a failed handler still has writes nothing into the next unit", async () => {
  const { worker, words, counts, lists } = counting();
  const [late, done] = [new Gate(), new Gate()];
  const errors: unknown[] = [];
  worker.each(words, { tables: [counts, lists] }, async ({ value }, ctx) => {
    const table = ctx.table(counts);
    if (value === "good") {
      late.open();
      await done.opened;
      table.set("good", 1);
      return;
    }
    const behind = async (): Promise<void> => {
      const list = ctx.table(lists);
      const walk = list.entries();
      await late.opened;
      for (const use of [
        () => table.set("bad", 1),
        () => table.delete("good"),
        () => table.clear(),
        () => table.get("good"),
        () => table.has("good"),
        () => table.size,
        () => list.get("bad").push(1),
        () => [...table],
        () => table.forEach(() => {}),
        () => walk.next(),
      ]) {
        try {
          use();
        } catch (error) {
          errors.push(error);
        }
      }
      done.open();
    };
    await Promise.all([behind(), Promise.reject(new Error("no"))]);
  });
  await using driver = new TestDriver(worker);
  await driver.sendMany(words, [
    ["k", "bad"],
    ["k", "good"],
  ]);
  assert.deepEqual([...driver.table(counts)], [["good", 1]]);
  assert.deepEqual([...driver.table(lists)], []);
  assert.equal(errors.length, 10);
  for (const error of errors) {
    assert.ok(error instanceof UsageError);
    assert.match(error.message, /is used after it has returned/);
  }
});

test("nor does one whose handler did not await it", async () => {
  const { worker, words, counts, lists } = counting();
  const errors: unknown[] = [];
  worker.process(words, { tables: [counts, lists] }, (batch, ctx) => {
    const table = ctx.table(counts);
    void Promise.resolve()
      .then(() => table.set("late", batch.length))
      .catch((error: unknown) => errors.push(error));
  });
  await using driver = new TestDriver(worker);
  await driver.send(words, "k", "v");
  await driver.send(words, "k", "v");
  assert.deepEqual([...driver.table(counts)], []);
  assert.equal(errors.length, 2);
});
