/** Control messages as programs write them, and the words of what is wrong. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { decode, encode, requestId } from "../src/control.js";
import { MessageError } from "../src/errors.js";
import type { Draft } from "../src/messages.js";

function refused(text: string): MessageError {
  try {
    decode(text);
  } catch (error) {
    assert.ok(error instanceof MessageError, String(error));
    return error;
  }
  assert.fail("it was decoded");
}

test("what is optional and empty is left out", () => {
  const drafts: [Draft, string][] = [
    [{ type: "progress" }, '{"type":"progress"}'],
    [{ type: "credit" }, '{"type":"credit"}'],
    [{ type: "credit", connection: 0, streams: new Map() }, '{"type":"credit"}'],
    [
      { type: "credit", connection: 5, streams: new Map([[12, 0]]) },
      '{"type":"credit","connection":5,"streams":{"12":0}}',
    ],
    [
      { type: "error", code: "internal", message: "" },
      '{"type":"error","code":"internal","message":""}',
    ],
    [{ type: "locate", id: 1, partition: undefined }, '{"type":"locate","id":1}'],
    [
      { type: "commit", id: 2, task: "t/0", epoch: 1, sourceNext: new Map([["t", 0]]) },
      '{"type":"commit","id":2,"task":"t/0","epoch":1,"source_next":{"t":0}}',
    ],
  ];
  for (const [draft, text] of drafts) {
    assert.equal(encode(draft), text);
  }
});

test("a partition of 0 is one, and not empty", () => {
  const text = '{"type":"locate","id":1,"table":"t","partition":0}';
  const message = decode(text);
  assert.ok(message?.type === "locate");
  assert.equal(message.partition, 0);
  assert.equal(encode(message), text);
});

test("what is absent is there for a reader", () => {
  assert.deepEqual(decode('{"type":"credit"}'), {
    type: "credit",
    connection: 0,
    streams: new Map(),
  });
  const assign = decode(
    '{"type":"assign","id":1,"task":"t/0","set":"t","partition":0,"role":"standby","epoch":1}',
  );
  assert.ok(assign?.type === "assign");
  assert.deepEqual([assign.sources, assign.tables, assign.outputs], [[], [], []]);
});

test("names of the user's choice are names, whatever they are", () => {
  const text =
    '{"type":"opened","re":1,"task":"t/0","epoch":1,"checkpoints":{"__proto__":"a","constructor":null}}';
  const message = decode(text);
  assert.ok(message?.type === "opened");
  assert.deepEqual(
    [...message.checkpoints],
    [
      ["__proto__", "a"],
      ["constructor", null],
    ],
  );
  assert.equal(encode(message), text);
});

test("a word of Object is no type", () => {
  for (const type of ["constructor", "__proto__", "toString"]) {
    assert.equal(refused(JSON.stringify({ type })).code, "unknown_type");
  }
});

test("errors say where and what", () => {
  const source = (more: object) =>
    JSON.stringify({
      type: "assign",
      id: 4,
      task: "t/0",
      set: "t",
      partition: 0,
      role: "active",
      epoch: 1,
      sources: [
        { topic: "t", stream: 1, position: 0 },
        { topic: "t", stream: 2, position: 0, ...more },
      ],
    });
  const error = refused(source({ position: -1 }));
  assert.equal(
    error.text,
    "assign.sources[1].position is not a whole number from 0 to 9007199254740991",
  );
  assert.deepEqual([error.re, error.fatal], [4, false]);
  assert.match(refused(source({ topic: "" })).text, /^assign\.sources\[1\]\.topic is empty$/);
  assert.match(
    refused('{"type":"progress",}').message,
    /^a control message is not JSON: .*\(bad_message\)$/,
  );
  assert.match(
    refused(`{"type":"${"x".repeat(200)}"}`).message,
    /^the message type "x{70,80}\.\.\. is not known/,
  );
});

test("only requests have an id", () => {
  assert.equal(requestId({ type: "locate", id: 7 }), 7);
  assert.equal(requestId({ type: "progress" }), 0);
});

test("the minus of a nought is no reason to refuse it, nor is it kept", () => {
  const message = decode('{"type":"credit","connection":-0}');
  assert.ok(message?.type === "credit");
  assert.ok(Object.is(message.connection, 0));
});
