/** The protocol core without I/O: what the transcripts do not show. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameKind } from "../src/codes.js";
import type { Outcome } from "../src/commits.js";
import { decode, encode as write } from "../src/control.js";
import { encode } from "../src/encode.js";
import { ConnectionLost, PillionError, ProtocolError, UsageError } from "../src/errors.js";
import { Protocol } from "../src/protocol.js";
import { EventQueue } from "../src/queue.js";
import { type On, type State, TRANSITIONS } from "../src/tasks.js";
import { ASSIGN, Hand, helloOf, lost, REVOKE, restored, STANDBY, WELCOME } from "./hand.js";

const { Records, Restore, Writes } = FrameKind;
const GONE = new ConnectionLost("gone");

test("every state and event is in the table", () => {
  const states: State[] = [
    "opening",
    "restoring",
    "restored",
    "promoted",
    "running",
    "revoking",
    "ended",
  ];
  assert.deepEqual(Object.keys(TRANSITIONS).sort(), [...states].sort());
  const rows = Object.entries(TRANSITIONS);
  const reached = new Set([
    "opening",
    "promoted",
    ...rows.flatMap(([, row]) => Object.values(row)),
  ]);
  assert.deepEqual([...reached].sort(), [...states].sort());
  assert.deepEqual(TRANSITIONS.ended, {});
  for (const [state, row] of rows) {
    const on: Partial<Record<On, State>> = row;
    assert.equal(on.lost, state === "ended" ? undefined : "ended"); // INVARIANT: lost fences in every state
  }
});

test("before welcome nothing is allowed", () => {
  for (const message of [ASSIGN, restored(9), { ...helloOf(1), id: 9 }]) {
    const core = new Protocol(helloOf(1), new EventQueue());
    core.nextOutgoing();
    core.receive(write(message));
    const answer = decode(String(core.nextOutgoing()));
    assert.ok(answer?.type === "error");
    assert.deepEqual([answer.re, answer.code], ["id" in message ? message.id : 0, "not_allowed"]);
  }
});

test("a welcome that does not fit ends the connection", () => {
  for (const [wrong, code] of [
    [{ version: 2 }, "version"],
    [{ re: 7 }, "not_allowed"],
  ] as const) {
    const core = new Protocol(helloOf(1), new EventQueue());
    const refuse = () => core.receive(write({ ...WELCOME, ...wrong }));
    assert.throws(refuse, (error) => error instanceof ProtocolError && error.code === code);
  }
  assert.throws(() => new Hand().send(WELCOME), ProtocolError);
});

test("what the table does not know changes nothing", () => {
  const core = new Hand();
  core.send(ASSIGN, restored(2), { type: "promoted", id: 3, task: "w/0", epoch: 2 });
  core.send(restored(4, "w/0", 9), { ...ASSIGN, id: 5, epoch: 2 }, restored(6, "w/1"));
  assert.deepEqual(core.errors(), [
    [2, "not_allowed", 0],
    [3, "not_allowed", 0],
    [5, "not_allowed", 0],
  ]);
  assert.deepEqual(core.types(), ["assigned"]);
  core.send(lost("w/7")); // merely late
  assert.deepEqual(core.errors(), []);
});

test("data before its time is refused and credited", () => {
  const core = new Hand();
  core.send(ASSIGN);
  core.events();
  const size = core.frame(Restore, 2, 0);
  core.frame(Records, 1, 5);
  core.frame(Restore, 99, 0);
  const [credit, ...rest] = core.sent();
  const streams = new Map([
    [2, 1000 + size],
    [1, 1000 + size],
  ]);
  assert.deepEqual(credit, { type: "credit", connection: 1000 + 3 * size, streams });
  assert.deepEqual(
    rest.map((each) => "type" in each && each.type === "error" && [each.code, each.stream]),
    [
      ["not_allowed", 2],
      ["not_allowed", 1],
      ["unknown_stream", 99],
    ],
  );
  assert.deepEqual(core.events(), []);
});

test("kinds are not mixed", () => {
  for (const [kind, stream] of [
    [Records, 2],
    [Restore, 1],
    [Restore, 4],
  ] as const) {
    const core = new Hand();
    core.running();
    assert.throws(() => core.frame(kind, stream, 5), ProtocolError);
  }
  const core = new Hand();
  core.running();
  const none = Buffer.of();
  const frame = encode({
    kind: Writes,
    stream: 2,
    epoch: 1,
    base: 1,
    next: 0,
    keys: [none],
    values: [none],
  });
  assert.throws(() => core.protocol.receive(frame), ProtocolError);
});

test("a stream is given once", () => {
  const core = new Hand();
  core.running();
  assert.throws(() => core.send({ ...STANDBY, tables: ASSIGN.tables }), ProtocolError);
});

test("records begin at the position", () => {
  const core = new Hand();
  core.running();
  core.frame(Records, 1, 6);
  assert.deepEqual(core.errors(), [[0, "offset_mismatch", 1]]);
  core.frame(Records, 1, 5); // too late: the stream is given up
  assert.deepEqual(core.errors(), []);
  assert.deepEqual(core.events(), []);
});

test("a stale frame is credited and dropped, and a lost task is answered nothing", () => {
  const core = new Hand();
  const task = core.running();
  core.frame(Records, 1, 5);
  const [taken] = core.events();
  assert.ok(taken?.type === "records" && !taken.batch.stale);
  core.send(lost());
  assert.ok(taken.batch.stale, "lost fences at once");
  assert.ok(!core.protocol.lives(task) && !core.protocol.keeps(task));
  core.sent();
  const size = core.frame(Records, 1, 6);
  assert.deepEqual(core.sent(), [
    { type: "credit", connection: 1000 + 2 * size, streams: new Map() },
  ]);
  assert.deepEqual(core.types(), ["lost"]);
  core.protocol.ready(task);
  core.protocol.opened(task, {});
  core.protocol.release(task);
  core.protocol.fail(task, "x", "y");
  assert.deepEqual(core.sent(), []);
});

test("revoking drops what is queued and what still comes", () => {
  const core = new Hand();
  core.running();
  core.frame(Records, 1, 5);
  core.frame(Restore, 3, 0);
  core.send(REVOKE);
  core.frame(Records, 1, 6);
  assert.deepEqual(core.types(), ["revoking"]);
  assert.deepEqual(core.errors(), []);
});

test("frames of other tasks wait behind what overtakes", () => {
  const core = new Hand();
  core.running();
  core.send(STANDBY);
  core.frame(Records, 1, 5);
  core.send(lost("w/1"), lost());
  const seen = core.events().map((event) => [event.type, "task" in event && event.task.name]);
  assert.deepEqual(seen, [
    ["assigned", "w/1"],
    ["lost", "w/1"],
    ["lost", "w/0"],
  ]);
});

test("credit goes out by quarters and when idle", () => {
  const core = new Hand(10_000);
  core.running();
  const size = core.frame(Records, 1, 5);
  core.events();
  assert.deepEqual(core.sent(), []);
  assert.ok(core.protocol.idle());
  const streams = new Map([[1, 10_000 + size]]);
  assert.deepEqual(core.sent(), [{ type: "credit", connection: 10_000 + size, streams }]);
  assert.ok(!core.protocol.idle());
  for (let i = 0; i < 50; i++) {
    core.frame(Records, 1, 6 + i);
  }
  core.events();
  assert.deepEqual(core.kinds(), ["credit"]);
});

test("more than the credit is refused", () => {
  const core = new Hand(100);
  core.running();
  core.frame(Records, 1, 5, { count: 10 });
  assert.throws(
    () => core.frame(Records, 1, 15),
    (error) => error instanceof ProtocolError && error.code === "credit_overrun",
  );
});

test("opened names every table, and release answers revoking", () => {
  const core = new Hand();
  core.send(ASSIGN);
  const task = core.task("assigned");
  for (const wrong of [{ t: null }, { t: null, s: null, x: null }, { t: null, x: null }]) {
    assert.throws(() => core.protocol.opened(task, wrong), /name all of s, t/);
  }
  assert.throws(() => core.protocol.release(task), UsageError);
});

test("closing loses every task once, and fails what was not answered", () => {
  const core = new Hand();
  const task = core.running();
  core.frame(Records, 1, 5);
  const ended: Outcome[] = [];
  core.protocol.commit(task, { w: 5 }, {}, {}, (outcome) => ended.push(outcome));
  core.protocol.closed(GONE);
  assert.deepEqual(core.types(), ["lost"]);
  assert.deepEqual(ended, [GONE]);
  core.protocol.closed(GONE);
  assert.deepEqual(core.events(), []);
  core.protocol.progress();
  assert.deepEqual(core.sent(), [], "nothing leaves a connection that is over");
});

test("a hung worker that takes something says that it lives", () => {
  const core = new Hand();
  core.running();
  core.send({ type: "lost", task: "w/0", epoch: 1, code: "hung" });
  assert.deepEqual(core.types(), ["lost"]);
  assert.deepEqual(core.kinds(), ["progress"]);
});

test("messages that are no requests of a known type are answered, or end the connection", () => {
  const core = new Hand();
  core.protocol.receive('{"type": "later", "id": 7}');
  core.protocol.receive('{"type": "later", "optional": true}');
  assert.deepEqual(core.errors(), [[7, "unknown_type", 0]]);
  for (const text of ["", "{", "[]", '{"type":"lost"}']) {
    assert.throws(() => core.protocol.receive(text), PillionError);
  }
});
