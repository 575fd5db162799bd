/** What a reset, a demotion and a release do to what is under way. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameKind } from "../src/codes.js";
import type { Outcome } from "../src/commits.js";
import { CommitStale } from "../src/errors.js";
import type { Draft } from "../src/messages.js";
import { ASSIGN, Hand, lost, REVOKE, restored, STANDBY } from "./hand.js";

const { Records, Restore } = FrameKind;
const RESET: Draft = {
  type: "reset",
  id: 5,
  task: "w/0",
  epoch: 1,
  table: "s",
  stream: 3,
  nextOffset: 40,
  code: "recreated",
};

test("a reset may bring a new stream", () => {
  const core = new Hand();
  const task = core.running();
  core.send(
    { ...RESET, stream: 12 } as Draft,
    { ...RESET, id: 6, table: "x", stream: 13 } as Draft,
  );
  assert.deepEqual(core.errors(), [[6, "bad_message", 0]]);
  assert.equal(core.task("reset"), task);
  core.protocol.opened(task, { s: null });
  core.frame(Restore, 3, 0); // the old stream
  core.frame(Restore, 12, 40);
  const [restore, ...more] = core.events();
  assert.ok(restore?.type === "restore" && more.length === 0);
  assert.equal(restore.batch.baseOffset, 40);
});

test("records wait from a reset until the next restored", () => {
  const core = new Hand();
  const task = core.running();
  core.frame(Records, 1, 5);
  core.frame(Records, 1, 6);
  assert.equal(core.protocol.take()?.type, "records");
  core.send(RESET);
  assert.deepEqual(core.types(), ["reset"]);
  core.protocol.opened(task, { s: null });
  core.protocol.commit(task, { w: 6 }, {}, {}, () => {}); // what was taken before
  core.frame(Restore, 3, 40);
  core.send(restored(6));
  assert.deepEqual(core.types(), ["restore", "restored"]);
  core.protocol.ready(task);
  core.frame(Records, 1, 7);
  const offsets = core.events().map((event) => event.type === "records" && event.batch.baseOffset);
  assert.deepEqual(offsets, [6, 7]);
  core.send(restored(7)); // unasked
  assert.deepEqual(core.errors(), [[7, "not_allowed", 0]]);
});

test("a restored that a reset has overtaken makes nothing whole", () => {
  const core = new Hand();
  const task = core.running();
  core.send(RESET);
  core.events();
  core.protocol.opened(task, { s: null });
  core.frame(Restore, 3, 40);
  core.send(restored(6), { ...RESET, id: 7 } as Draft);
  assert.equal(core.protocol.take()?.type, "restored"); // and its rows are gone
  assert.ok(!core.protocol.whole(task));
  core.events();
  core.protocol.opened(task, { s: null });
  core.send(restored(8));
  core.events();
  assert.ok(core.protocol.whole(task));
});

test("a reset of a global table holds the records of all tasks", () => {
  const core = new Hand();
  core.running();
  const table = { name: "g", topic: "g-topic", kind: "global", stream: 50 } as const;
  core.send({ ...STANDBY, id: 7, task: "g/0", set: "g", role: "global", tables: [table] });
  const places = core.task("assigned");
  core.protocol.opened(places, { g: null });
  core.send(restored(8, "g/0"));
  core.events();
  core.protocol.ready(places);
  for (const gone of [false, true]) {
    core.frame(Records, 1, gone ? 6 : 5);
    core.send({ ...RESET, id: 9, task: "g/0", table: "g", stream: 50, nextOffset: 0 } as Draft);
    assert.deepEqual(core.types(), ["reset"]);
    core.protocol.opened(places, { g: null });
    if (gone) {
      core.send(lost()); // held ones go with their task
      assert.deepEqual(core.types(), ["lost"]);
    }
    core.send(restored(10, "g/0"));
    core.events();
    core.protocol.ready(places);
    assert.deepEqual(core.types(), gone ? [] : ["records"]);
  }
});

test("a restored before the one before was answered", () => {
  const core = new Hand();
  core.send(ASSIGN);
  const task = core.task("assigned");
  core.protocol.opened(task, { t: null, s: null });
  core.send(restored(2), { ...RESET, id: 3 } as Draft, restored(4));
  core.protocol.opened(task, { s: null });
  for (let i = 0; i < 3; i++) {
    core.protocol.ready(task);
  }
  const answers = core.sent().map((each) => "re" in each && [each.type, each.re]);
  assert.deepEqual(answers, [
    ["opened", 1],
    ["opened", 3],
    ["ready", 2],
    ["ready", 4],
  ]);
});

test("a demoted task commits nothing, and goes on as a copy", () => {
  const core = new Hand();
  const task = core.running();
  core.frame(Records, 1, 5);
  core.send({
    type: "demoted",
    task: "w/0",
    epoch: 2,
    tables: [{ name: "t", topic: "l", kind: "changelog", stream: 20 }],
  });
  const copy = core.task("demoted");
  const ended: Outcome[] = [];
  core.protocol.commit(task, { w: 6 }, {}, {}, (outcome) => ended.push(outcome));
  assert.ok(ended[0] instanceof CommitStale);
  assert.ok(core.protocol.keeps(task), "what it committed before belongs into the copy");
  core.frame(Restore, 20, 77, { epoch: 2 });
  assert.equal(core.task("restore"), copy);
});

test("rows before demoted are still applied", () => {
  const core = new Hand();
  core.running();
  core.frame(Records, 1, 5);
  core.frame(Restore, 3, 7);
  core.send({
    type: "demoted",
    task: "w/0",
    epoch: 2,
    tables: [{ name: "s", topic: "up", kind: "source", stream: 20 }],
  });
  const [restore, demoted] = core.events();
  assert.ok(restore?.type === "restore" && !restore.batch.stale); // what comes on the new stream begins behind it
  assert.equal(demoted?.type, "demoted");
  core.frame(Restore, 20, 9, { epoch: 2 });
  assert.deepEqual(core.errors(), [[0, "offset_mismatch", 20]]);
});

test("released leaves behind its commits, whose rows still belong into the stores", () => {
  const core = new Hand();
  const task = core.running();
  const ended: Outcome[] = [];
  const rows = { t: [[Buffer.from("a"), Buffer.from("1")]] } as const;
  core.protocol.commit(task, { w: 6 }, rows, {}, (outcome) => ended.push(outcome));
  core.send(REVOKE);
  core.events();
  core.protocol.release(task);
  core.protocol.progress();
  assert.deepEqual(core.kinds(), ["progress", "frame", "commit", "released"]);
  assert.ok(core.protocol.keeps(task) && !core.protocol.lives(task));
  core.send({
    type: "committed",
    re: 2,
    task: "w/0",
    epoch: 1,
    checkpoints: new Map([["t", "v1:1"]]),
  });
  assert.deepEqual(ended, [{ task: "w/0", checkpoints: new Map([["t", "v1:1"]]) }]);
});

test("released falls with its commits when the sidecar did not wait", () => {
  const core = new Hand();
  const task = core.running();
  const ended: Outcome[] = [];
  core.protocol.commit(task, { w: 6 }, {}, {}, (outcome) => ended.push(outcome));
  core.send(REVOKE);
  core.protocol.release(task);
  core.send({ type: "lost", task: "w/0", epoch: 1, code: "revoke_timeout" });
  assert.deepEqual(core.sent(), []);
  assert.ok(ended[0] instanceof CommitStale);
  assert.ok(!core.protocol.keeps(task));
});

test("after a failing answer nothing of the epoch is delivered or committed any more", () => {
  for (const type of ["aborted", "unknown"] as const) {
    const core = new Hand();
    const task = core.running();
    core.frame(Records, 1, 5);
    const [taken] = core.events();
    assert.ok(taken?.type === "records");
    const ended: Outcome[] = [];
    const done = (outcome: Outcome): void => void ended.push(outcome);
    core.protocol.commit(task, { w: 6 }, {}, {}, done);
    core.sent();
    core.protocol.commit(task, { w: 6 }, {}, {}, done); // not sent yet
    core.frame(Records, 1, 6); // queued
    core.send({ type, re: 2, task: "w/0", epoch: 1, code: "kafka_unreachable", message: "away" });
    assert.ok(taken.batch.stale && !core.protocol.lives(task));
    assert.ok(ended[1] instanceof CommitStale);
    core.frame(Records, 1, 7);
    assert.deepEqual(core.events(), []);
    core.protocol.commit(task, { w: 6 }, {}, {}, done);
    assert.ok(ended[2] instanceof CommitStale);
    assert.deepEqual(core.kinds(), ["credit"]);
    core.send(REVOKE);
    assert.equal(core.task("revoking"), task);
    core.protocol.release(task);
    assert.deepEqual(core.kinds(), ["released"]);
  }
});

test("of a commit that has begun when another one fails all is sent", () => {
  const core = new Hand();
  const task = core.running();
  core.protocol.commit(task, { w: 5 }, {}, {}, () => {});
  core.sent();
  const large = [0, 1].map((i) => [Buffer.from(String(i)), Buffer.alloc(200 << 10)] as const);
  core.protocol.commit(task, { w: 5 }, { t: large }, {}, () => {});
  assert.ok(core.protocol.nextOutgoing() instanceof Uint8Array);
  core.protocol.fail(task, "worker_failed", "it cannot go on");
  core.send({ type: "aborted", re: 2, task: "w/0", epoch: 1, code: "x", message: "" });
  assert.deepEqual(core.kinds(), ["error", "frame", "commit"]);
  core.send({ type: "lost", task: "w/0", epoch: 1, code: "worker_failed" });
  assert.deepEqual(core.types(), ["lost"]);
});

test("lost in the middle of a commit: what has begun is ended with its commit", () => {
  const core = new Hand();
  const task = core.running();
  const ended: Outcome[] = [];
  const large = [0, 1].map((i) => [Buffer.from(String(i)), Buffer.alloc(200 << 10)] as const);
  core.protocol.commit(task, { w: 5 }, { t: large }, {}, (outcome) => ended.push(outcome));
  core.protocol.commit(task, { w: 5 }, { t: large }, {}, (outcome) => ended.push(outcome));
  assert.ok(core.protocol.nextOutgoing() instanceof Uint8Array);
  core.send({ type: "lost", task: "w/0", epoch: 1, code: "fenced" });
  assert.ok(ended.length === 1 && ended[0] instanceof CommitStale, "the second one never begins");
  assert.deepEqual(core.kinds(), ["commit"]);
  core.send({ type: "stale", re: 2, task: "w/0", epoch: 1 });
  assert.equal(ended.length, 2);
});

test("rows that were taken before their store was reset are stale", () => {
  const core = new Hand();
  core.running();
  core.frame(Restore, 3, 7);
  const [taken] = core.events();
  assert.ok(taken?.type === "restore" && !taken.batch.stale);
  core.send(RESET);
  assert.ok(taken.batch.stale);
  core.frame(Restore, 3, 40);
  const [, anew] = core.events();
  assert.ok(anew?.type === "restore" && !anew.batch.stale);
});
