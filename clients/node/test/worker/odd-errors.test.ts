/** Errors of user code that are not as errors should be. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import { UsageError } from "../../src/errors.js";
import { bytes, json, str } from "../../src/serdes/index.js";
import { TestDriver } from "../../src/testing/index.js";
import {
  deadLetter,
  type Failure,
  HandlerFailed,
  type OnError,
  skip,
} from "../../src/worker/policy.js";
import { Worker } from "../../src/worker/worker.js";

function failing(onError: OnError, error: unknown) {
  const worker = new Worker({ group: "g" });
  const words = worker.topic("words", { key: str(), value: str() });
  worker.each(words, { onError }, () => {
    throw error;
  });
  return { worker, words };
}

const odd: Record<string, unknown> = {
  "a message that is no text": Object.assign(new Error(), { message: { code: 7 } }),
  "no message": Object.assign(new Error(), { message: undefined }),
  "a stack that is no text": Object.assign(new Error("no"), { stack: [] }),
  undefined: undefined,
  null: null,
  "an object without prototype": Object.create(null),
};

for (const [name, error] of Object.entries(odd)) {
  test(`an error with ${name} is skipped as others are`, async () => {
    const { worker, words } = failing(skip(), error);
    await using driver = new TestDriver(worker);
    await driver.send(words, "k", "v");
  });
}

test("a dead letter says of a long error only how it begins", async () => {
  const worker = new Worker({ group: "g" });
  const words = worker.topic("words", { key: str(), value: str() });
  const dead = worker.output("dead", { key: bytes(), value: bytes() });
  worker.each(words, { onError: deadLetter(dead) }, () => {
    throw new Error("😀".repeat(1 << 20)); // which Kafka would refuse, again and again
  });
  await using driver = new TestDriver(worker);
  await driver.send(words, "k", "v");
  const [letter] = driver.records(dead);
  const [, said] = letter?.headers.find(([header]) => header === "pillion-error") ?? [];
  assert.match(String(said), /^Error: 😀+\ufffd?…$/u);
  assert.ok((said?.length ?? 0) < 5000);
});

test("an onError that is async is refused, and what it rejects with is nobody's", async (t) => {
  const unhandled: unknown[] = [];
  const hear = (error: unknown): void => void unhandled.push(error);
  process.on("unhandledRejection", hear);
  t.after(() => process.off("unhandledRejection", hear));
  const policy = (async (_: Failure) => {
    throw new Error("late");
  }) as unknown as OnError;
  const { worker, words } = failing(policy, new Error("no"));
  const driver = new TestDriver(worker);
  await assert.rejects(driver.send(words, "k", "v"), (error: Error) => {
    assert.ok(error instanceof HandlerFailed);
    assert.match(error.message, /onError gave Promise/);
    return true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(unhandled, []);
});

test("a schema that validates asynchronously ends the program, and skips no record", async () => {
  const schema = z.string().refine(async (text) => text !== "");
  for (const made of [
    (worker: Worker) => {
      const words = worker.topic("words", { key: str(), value: json(schema) });
      worker.each(words, () => {});
      return words;
    },
    (worker: Worker) => {
      const words = worker.topic("words", { key: str(), value: json<string>() });
      const out = worker.output("out", { key: str(), value: json(schema) });
      worker.each(words, ({ value }, ctx) => ctx.send(out, { key: "k", value }));
      return words;
    },
    (worker: Worker) => {
      const words = worker.topic("words", { key: str(), value: json<string>() });
      const table = worker.table("table", { key: str(), value: json(schema) });
      worker.each(words, { tables: [table] }, ({ value }, ctx) => {
        ctx.table(table).set("k", value ?? "");
      });
      return words;
    },
  ]) {
    const worker = new Worker({ group: "g", onError: skip() });
    const words = made(worker);
    const driver = new TestDriver(worker);
    await assert.rejects(
      driver.sendRaw(words, Buffer.from("k"), Buffer.from('"v"')),
      (error: Error) => error instanceof UsageError || error.cause instanceof UsageError,
    );
  }
});
