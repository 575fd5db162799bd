/** What happens to a record that cannot be processed: what policies say, and how it is told. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { SerdeError, UsageError } from "../../src/errors.js";
import { bytes } from "../../src/serdes/index.js";
import { Output } from "../../src/worker/declared.js";
import {
  deadLetter,
  deadLetterHeaders,
  describe,
  type Failure,
  failedHandler,
  isVerdict,
  type OnError,
  skip,
  stop,
  Told,
  undecodable,
  verdictOf,
} from "../../src/worker/policy.js";
import { Undecodable } from "../../src/worker/records.js";

const dead = new Output("dead", bytes(), bytes());
const failure: Failure = {
  error: new RangeError("this\n  one"),
  topic: "numbers",
  partition: 3,
  offset: 7,
  key: Buffer.from("k"),
  value: null,
  decoding: false,
};

test("policies say what they are, functions what they give", () => {
  const asked: Failure[] = [];
  const decide: OnError = (given) => {
    asked.push(given);
    return given.decoding ? skip() : deadLetter(dead);
  };
  assert.deepEqual(verdictOf(stop(), failure), { verdict: "stop" });
  assert.deepEqual(verdictOf(skip(), failure), { verdict: "skip" });
  assert.deepEqual(verdictOf(decide, failure), { verdict: "deadLetter", output: dead });
  assert.deepEqual(verdictOf(decide, { ...failure, decoding: true }), skip());
  assert.deepEqual(verdictOf(skip, failure), skip());
  assert.equal(asked[0], failure);
  assert.ok([stop(), skip(), deadLetter(dead)].every(isVerdict));
});

test("a function that gives something else is an error of the program", () => {
  for (const said of [
    undefined,
    null,
    "skip",
    skip,
    { verdict: "wait" },
    Promise.resolve(skip()),
  ]) {
    const policy = (() => said) as unknown as OnError;
    assert.throws(
      () => verdictOf(policy, failure),
      /return stop\(\), skip\(\) or deadLetter\(outp/,
    );
  }
});

test("dead letters say why", () => {
  const headers = deadLetterHeaders({ ...failure, error: new Error("half \ud800") });
  assert.deepEqual(
    headers.map(([name, value]) => [name, value.toString()]),
    [
      ["pillion-error", "Error: half \ufffd"],
      ["pillion-topic", "numbers"],
      ["pillion-partition", "3"],
      ["pillion-offset", "7"],
    ],
  );
});

test("errors are told in one line", () => {
  class Strange extends Error {
    override name = "Strange";
  }
  assert.equal(describe(new RangeError("this\n  one")), "RangeError: this one");
  assert.equal(describe(new Strange()), "Strange");
  assert.equal(describe(new UsageError("the text", "a_code")), "the text");
  assert.equal(describe("text"), "'text' was thrown");
  assert.equal(describe(undefined), "undefined was thrown");
  assert.equal(describe(Object.create(null)), "[Object: null prototype] {} was thrown");
});

test("a handler that has failed", () => {
  const made = failedHandler("count", "at numbers/3 offset 7", failure.error);
  assert.equal(
    made.message,
    "count has failed at numbers/3 offset 7: RangeError: this one; what was before is committed, " +
      "and the next start begins there (handler_failed)",
  );
  assert.deepEqual(
    [made.cause, made.name, made.retriable],
    [failure.error, "HandlerFailed", false],
  );
});

test("a record that does not decode", () => {
  const cause = new SerdeError("3 bytes instead of 8");
  const made = undecodable(
    "numbers/3 offset 7",
    new Undecodable("its value does not decode", cause),
  );
  assert.equal(
    made.message,
    "the record at numbers/3 offset 7 cannot be processed: its value does not decode; the next " +
      "start begins with it (onError: skip() or deadLetter(output) pass it over) (undecodable)",
  );
  assert.equal(made.cause, cause);
});

test("a place is told once", () => {
  const told = new Told();
  const here = () => new Error("here");
  const there = () => new Error("there");
  const first = here();
  assert.equal(told.first(first), first);
  assert.equal(told.first(here()), undefined);
  const other = there();
  assert.equal(told.first(other), other);
  assert.equal(told.first("text"), undefined);
  const bare = here();
  bare.stack = "Error: here";
  assert.equal(told.first(bare), undefined);
});
