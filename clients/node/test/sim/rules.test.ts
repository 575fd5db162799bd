/** What the simulated sidecar refuses: a worker that breaks a rule must not pass unnoticed. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameKind } from "../../src/codes.js";
import { encode } from "../../src/encode.js";
import { Fault } from "../../src/testing/sim/fault.js";
import * as moves from "../../src/testing/sim/moves.js";
import { ByHand, there } from "./byhand.js";

const LOG = "test-counts-changelog";

test("a worker that does all right is answered", () => {
  const w = new ByHand().run();
  w.write(w.counts);
  w.write(w.changes);
  w.commit();
  const { kafka } = w.sidecar;
  assert.deepEqual(kafka.log(LOG, 0).rows(), new Map([["k", Buffer.from("v")]]));
  assert.equal(kafka.position("words", 0), 9);
  assert.deepEqual(
    kafka.outputs.map(({ topic, record }) => [topic, String(record.key)]),
    [["changes", "k"]],
  );
  const mark = there(w.answer("committed").checkpoints.get("counts"));
  assert.equal(kafka.points.get(mark)?.position, 2); // behind the marker
});

function revoked(w: ByHand): void {
  moves.revoke(w.session, w.epoch);
}

function release(w: ByHand): void {
  w.say({ type: "released", re: w.epoch.revoke, task: "words/0", epoch: 1 });
}

function twice(w: ByHand): void {
  w.commit();
  w.commit();
}

function mixed(w: ByHand): void {
  w.write(w.counts, { commit: 2 });
  w.write(w.counts, { commit: 3 });
}

function released(w: ByHand): void {
  revoked(w);
  w.sidecar.answersHeld = true;
  w.commit();
  release(w);
  w.write(w.counts, { commit: 3 });
}

function releasedAmid(w: ByHand): void {
  revoked(w);
  w.write(w.counts);
  release(w);
}

function three(w: ByHand): void {
  w.sidecar.answersHeld = true;
  for (const id of [2, 3, 4]) {
    w.commit(9, id);
  }
}

function withoutCredit(w: ByHand): void {
  w.sidecar.creditHeld = true;
  w.session.granted = 10;
  w.write(w.counts);
  w.write(w.counts);
}

function withoutCreditOfTheStream(w: ByHand): void {
  w.sidecar.creditHeld = true;
  w.table.granted = 10;
  w.write(w.counts);
  w.write(w.counts);
}

function voided(w: ByHand): void {
  w.sidecar.answersHeld = true;
  w.write(w.counts);
  w.commit();
  moves.lose(w.session, w.epoch);
  w.session.answer(there(w.session.held[0]), "committed");
  const { checkpoints } = w.answer("committed");
  const again = moves.assign(w.session, "words/0");
  w.opened(new Map(checkpoints), again.asked, 2);
}

function ofAnother(w: ByHand): void {
  const mark = w.sidecar.kafka.checkpoint("names", 0, 1);
  moves.lose(w.session, w.epoch);
  const again = moves.assign(w.session, "words/0");
  w.opened(new Map([["counts", mark]]), again.asked, 2);
}

function ofAnotherPartition(w: ByHand): void {
  const mark = w.sidecar.kafka.checkpoint(LOG, 1, 1);
  moves.lose(w.session, w.epoch);
  const again = moves.assign(w.session, "words/0");
  w.opened(new Map([["counts", mark]]), again.asked, 2);
}

function notWiped(w: ByHand): void {
  moves.reset(w.session, w.epoch, w.table);
  const mark = w.sidecar.kafka.checkpoint(LOG, 0, 1);
  w.opened(new Map([["counts", mark]]), there([...w.epoch.resets.keys()][0]));
}

function ofTwoTasks(w: ByHand): void {
  const other = moves.assign(w.session, "words/1");
  other.ran = true;
  w.write(w.counts, { commit: 2 });
  w.write(there(other.tables.get("counts")).id, { commit: 2, epoch: 2 });
}

function records(w: ByHand): void {
  const at = { stream: w.changes, epoch: 1, base: 2, next: 3 };
  const one = [Buffer.from("k")];
  w.session.receive(encode({ kind: FrameKind.Records, ...at, keys: one, values: one }));
}

const ERROR = { type: "error", code: "worker_failed", message: "no" } as const;
const OF = { task: "words/0", epoch: 1 };

const RULES: Readonly<Record<string, readonly [wrong: (w: ByHand) => void, why: RegExp]>> = {
  "hello twice": [(w) => w.say(w.session.declared), /hello once/],
  "no JSON": [(w) => w.session.receive("{"), /as in spec\/schema/],
  "a large message": [(w) => w.session.receive(" ".repeat(401)), /at most 400 bytes/],
  "a large message in few characters": [
    (w) => w.session.receive("€".repeat(140)),
    /at most 400 bytes/,
  ],
  "a sidecar's message": [(w) => w.say({ type: "lost", ...OF, code: "fenced" }), /a worker sends/],
  "opened twice": [(w) => w.opened(), /opened once/],
  "a table that nobody knows": [
    (w) => {
      const again = moves.assign(w.session, "words/0");
      w.opened(new Map([["x", null]]), again.asked, 2);
    },
    /of a table 'x'/,
  ],
  "ready twice": [(w) => w.say({ type: "ready", re: 2, ...OF }), /ready once/],
  "released unasked": [(w) => w.say({ type: "released", re: 3, ...OF }), /released once/],
  "another task": [(w) => w.say({ type: "ready", re: 2, ...OF, task: "words/1" }), /were assigned/],
  "an error": [(w) => w.say(ERROR), /no error/],
  "what is forbidden": [
    (w) => {
      w.sidecar.forbidden = ["progress"];
      w.say({ type: "progress" });
    },
    /no progress now/,
  ],
  "credit from nothing": [(w) => w.say({ type: "credit", connection: 99_999 }), /at most/],
  "credit for a stream from nothing": [
    (w) => w.say({ type: "credit", streams: new Map([[w.source.id, 99_999]]) }),
    /at most \d+ for stream/,
  ],
  "credit for a stranger": [
    (w) => w.say({ type: "credit", streams: new Map([[77, 1]]) }),
    /that were given/,
  ],
  "a broken frame": [(w) => w.session.receive(Buffer.from("frame")), /section 5/],
  "a frame of records": [records, /kind writes/],
  "an unknown stream": [(w) => w.write(99), /one on stream 99/],
  "another epoch": [(w) => w.write(w.counts, { epoch: 5 }), /epoch 1 on stream/],
  "a source table": [(w) => w.write(w.names), /writes to names/],
  "a null key": [(w) => w.write(w.counts, { key: null }), /keys in a changelog/],
  "a large frame": [(w) => w.write(w.counts, { size: 300 }), /frames of at most 300/],
  "a large commit": [
    (w) => {
      w.write(w.counts, { size: 230 });
      w.write(w.counts, { size: 230 });
    },
    /commits of at most 500/,
  ],
  "two commits mixed": [mixed, /the rest of commit 2/],
  "two tasks in a commit": [ofTwoTasks, /one task in a commit/],
  "a commit twice": [twice, /an id above 2/],
  "three without an answer": [three, /at most 2 commits/],
  "a frame without credit": [withoutCredit, /no frame: /],
  "a frame without credit of its stream": [withoutCreditOfTheStream, /no frame for counts/],
  "behind released": [released, /in state released/],
  "released amid a commit": [releasedAmid, /behind the last commit/],
  "past what was delivered": [(w) => w.commit(10), /never past/],
  "before a gap": [(w) => w.commit(3), /passes over the gap/],
  "another topic": [(w) => w.commit(9, 2, "names"), /positions of words/],
  "a position back": [
    (w) => {
      w.commit(2);
      w.commit(1, 3);
    },
    /from 2 on/,
  ],
  "a void checkpoint": [voided, /epoch was over/],
  "another table's checkpoint": [ofAnother, /was given for/],
  "another partition's checkpoint": [ofAnotherPartition, /was given for/],
  "a store that was not wiped": [notWiped, /opened with null/],
};

for (const [rule, [wrong, why]] of Object.entries(RULES)) {
  test(`${rule}: a fault`, () => {
    const w = new ByHand().run();
    assert.throws(
      () => wrong(w),
      (error) => error instanceof Fault && why.test(error.message),
    );
  });
}

test("nothing comes before ready", () => {
  const w = new ByHand();
  assert.throws(() => new ByHand().session.receive("{}"), Fault);
  w.opened();
  assert.throws(() => w.write(w.counts), /in state restoring/);
  assert.throws(() => w.commit(0), /in state restoring/);
});

test("nothing comes before hello", () => {
  const w = new ByHand();
  w.session.hello = null;
  assert.throws(() => w.say({ type: "progress" }), /hello once, and before/);
  assert.throws(() => w.write(w.counts), /nothing else before welcome/);
});

test("what comes too late is stale and credited", () => {
  const w = new ByHand().run();
  moves.lose(w.session, w.epoch);
  w.write(w.counts);
  w.commit();
  assert.deepEqual(
    w.answers(2).map(({ type }) => type),
    ["credit", "stale"],
  );
  assert.equal(w.sidecar.kafka.position("words", 0), 0);
});

test("behind a commit that failed the others of the epoch are aborted", () => {
  const w = new ByHand().run();
  w.sidecar.fates.push({ ending: "unknown", code: "kafka_unreachable", lands: true });
  w.write(w.counts);
  w.commit(2);
  w.write(w.counts, { commit: 3 });
  w.commit(9, 3);
  assert.deepEqual(
    w.answers(3).map(({ type }) => type),
    ["unknown", "credit", "aborted"],
  );
  assert.equal(w.sidecar.kafka.position("words", 0), 2); // the first one has landed nevertheless
});

test("what a worker could not know to be too early is no fault", () => {
  const w = new ByHand();
  w.opened();
  moves.restored(w.session, w.epoch);
  moves.reset(w.session, w.epoch, w.table); // overtakes restored, whose ready is on its way
  w.say({ type: "ready", re: 2, ...OF });
  w.write(w.counts);
  w.commit(0);
  assert.deepEqual(
    w.answers(2).map((each) => ("code" in each ? each.code : each.type)),
    ["credit", "not_allowed"],
  );
  assert.equal(w.epoch.state, "restored");
});

test("a task that is released is over with the answer to its last commit", () => {
  const w = new ByHand().run();
  w.sidecar.answersHeld = true;
  revoked(w);
  w.commit();
  release(w);
  assert.equal(w.epoch.state, "released");
  w.session.answer(there(w.session.held[0]), "committed");
  assert.equal(w.epoch.state, "over");
  assert.equal(w.sidecar.kafka.position("words", 0), 9);
});

test("a frame waits for the worker's credit, and stops only its own task", () => {
  const w = new ByHand().run();
  const other = moves.assign(w.session, "words/1");
  w.source.limit = w.source.sent;
  moves.feed(w.session, w.source, [], 10);
  moves.feed(w.session, there(other.sources.get("words")), [], 1);
  assert.deepEqual([w.epoch.queue.length, other.queue.length], [1, 0]);
  const streams = new Map([[w.source.id, w.source.window + w.source.sent]]);
  w.say({ type: "credit", streams });
  assert.equal(w.epoch.queue.length, 0);
});

test("a key is located where the partitioner puts it", () => {
  const w = new ByHand();
  const key = Buffer.from("k").toString("base64");
  w.say({ type: "locate", id: 7, table: "counts", key });
  const { re, task, active } = w.answer("located");
  assert.deepEqual([re, task, active?.member], [7, "words/0", "this-worker"]);
  w.say({ type: "locate", id: 8, table: "counts", partition: 5 });
  assert.equal(w.answer("located").task, "words/5");
  w.say({ type: "locate", id: 9, table: "other", key });
  assert.equal(w.answer("error").code, "unknown_table");
});
