/** What only those write who have no compiler; each is one sentence at its line. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageError } from "../../src/errors.js";
import { bytes, int, json, str } from "../../src/serdes/index.js";
import { checkNumber } from "../../src/worker/checks.js";
import { Declarations } from "../../src/worker/declarations.js";
import { deadLetter, skip } from "../../src/worker/policy.js";

// biome-ignore lint/suspicious/noExplicitAny: so is a program without types
const worker: any = new Declarations("g");
const texts = { key: str(), value: str() };
const topic = worker.topic("a", texts);
const table = worker.table("t", texts);
const typed = worker.output("typed", { key: bytes(), value: str() });

function one(_record: unknown, _ctx: unknown): void {}
function three(_record: unknown, _ctx: unknown, _more: unknown): void {}
function* generator() {
  yield 1;
}
async function* asyncGenerator() {
  yield 1;
}

const WRONG: Readonly<Record<string, [says: string, call: () => unknown]>> = {
  "a generator": [
    "generator is a generator, so that nothing of it would run; make it a function without *",
    () => worker.each(topic, generator),
  ],
  "an async generator": [
    "asyncGenerator is a generator, so that nothing of it would run; make it a function without *",
    () => worker.process(topic, asyncGenerator),
  ],
  "more arguments": ["three must take (record, ctx)", () => worker.each(topic, three)],
  "more arguments by time": ["one must take (ctx)", () => worker.every({ seconds: 1 }, one)],
  "no topic": [
    "each() needs the topic: each(topic, { tables: [...] }, handler), not one",
    () => worker.each(one),
  ],
  "the topic's name": [
    "process() needs the topic: process(topic, { tables: [...] }, handler), not 'a'",
    () => worker.process("a", one),
  ],
  "no handler": [
    "the handler of 'a' is { tables: [Array] }, which is no function",
    () => worker.each(topic, { tables: [table] }),
  ],
  "options after the handler": [
    "each() takes its options as an object before the handler, not one",
    () => worker.each(topic, one, { tables: [table] }),
  ],
  "tables without options": [
    "each() takes its options as an object before the handler, not [ [Table] ]",
    () => worker.each(topic, [table], one),
  ],
  "no options of time": [
    "every() takes its options as an object before the handler, not one",
    () => worker.every(one),
  ],
  "one table": [
    "tables of one is an array: write tables: [t]",
    () => worker.each(topic, { tables: table }, one),
  ],
  "a table's name": [
    "tables of one is an array of tables, not 't'",
    () => worker.each(topic, { tables: "t" }, one),
  ],
  "tables of time": [
    "tables of the function of every(1 s) is an array: write tables: [t]",
    () => worker.every({ seconds: 1, tables: table }, () => undefined),
  ],
  "a word as policy": [
    "onError of one must be stop(), skip(), deadLetter(output) or a function, not 'skip'",
    () => worker.each(topic, { onError: "skip" }, one),
  ],
  "dead letters to nowhere": [
    "onError of one is a function that makes a policy; write deadLetter(output)",
    () => worker.each(topic, { onError: deadLetter }, one),
  ],
  "typed dead letters": [
    "the dead letters of one are written as they came; their output must be made with " +
      "key: bytes(), value: bytes()",
    () => worker.each(topic, { onError: deadLetter(typed) }, one),
  ],
  "a value as default": [
    "default of table 'u' must be a function: () => [ 1 ], not [ 1 ]",
    () => worker.table("u", { key: str(), value: json(), default: [1] }),
  ],
  "no serdes": ["topic 'b' needs its serdes: { key: ..., value: ... }", () => worker.topic("b")],
};

for (const [name, [says, call]] of Object.entries(WRONG)) {
  test(`refused: ${name}`, () => {
    assert.throws(call, (error) => {
      assert.ok(error instanceof UsageError, String(error));
      assert.equal(error.message, `${says} (bad_declaration)`);
      return true;
    });
  });
}

test("a serde that was not called is said at its declaration", () => {
  const text = "the key of table 'u': str is a function: write str()";
  assert.throws(() => worker.table("u", { key: str, value: int() }), { text });
});

test("what is right passes", () => {
  const right = new Declarations("g");
  const source = right.topic("a", texts);
  const dead = right.output("dead", { key: bytes(), value: bytes() });
  right.each(source, { onError: deadLetter(dead) }, () => undefined);
  right.each(source, { onError: skip }, async (record) => record.key); // a function, as it happens
  right.process(source, {}, (batch, ...rest) => [batch, rest]);
  right.every({ seconds: 0.5 }, async () => undefined);
});

test("numbers", () => {
  checkNumber("replicas", 0, 0, true);
  checkNumber("commitIntervalMs", 0.5, 0);
  const cases: [unknown, boolean, string][] = [
    ["5s", false, "n must be a number from 0 on, not '5s'"],
    [-1, true, "n must be a whole number from 0 on, not -1"],
    [1.5, true, "n must be a whole number from 0 on, not 1.5"],
    [Number.NaN, false, "n must be a number from 0 on, not NaN"],
    [true, false, "n must be a number from 0 on, not true"],
  ];
  for (const [value, whole, says] of cases) {
    assert.throws(() => checkNumber("n", value, 0, whole), { text: says });
  }
});
