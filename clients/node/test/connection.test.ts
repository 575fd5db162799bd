/** The connection: what user code says and gets, over a socket in memory. */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CommitAborted,
  CommitRejected,
  CommitStale,
  ConnectionLost,
  LocateError,
  UsageError,
} from "../src/errors.js";
import { parse } from "../src/frames.js";
import { records, until, Wire } from "./wire.js";

test("from hello to released", async () => {
  const wire = new Wire({ group: "g", name: "me", replicas: 1, advertise: "h:1" });
  const dialled = wire.dials();
  const open = wire.conn.open();
  const worker = (await dialled).accept();
  await until(() => worker.sent.length > 0);
  const hello = worker.expect("hello");
  assert.deepEqual(
    [hello.group, hello.outputs, hello.level, hello.replicas],
    ["g", ["o"], "standby", 1],
  );
  assert.deepEqual(hello.client, { name: "me", version: "0.1.0", language: "node" });
  assert.deepEqual(
    [hello.credit, hello.address],
    [{ connection: 1 << 20, stream: 1 << 20 }, "h:1"],
  );
  assert.throws(() => wire.conn.welcome, UsageError);
  worker.say(welcome());
  await open;
  assert.equal(wire.conn.welcome.guarantee, "at_least_once");
  const task = await wire.running(worker);
  records(worker, 5);
  const { batch } = await wire.event("records");
  const done = wire.conn.commit(batch, {
    changelog: {
      t: [
        [Buffer.from("a"), Buffer.from("1")],
        [Buffer.from("b"), null],
      ],
    },
    outputs: { o: [[null, Buffer.from("x")]] },
  });
  const frames = [worker.next(), worker.next()].map((data) => {
    assert.ok(data instanceof Uint8Array);
    return parse(data);
  });
  assert.deepEqual(
    frames.map(({ stream, base, count }) => [stream, base, count]),
    [
      [2, 2, 2],
      [4, 2, 1],
    ],
  );
  assert.deepEqual(worker.expect("commit").sourceNext, new Map([["w", 6]]));
  const checkpoints = new Map([["t", "v1:2"]]);
  worker.say({ type: "committed", re: 2, task: "w/0", epoch: 1, checkpoints });
  assert.deepEqual((await done).checkpoints, checkpoints);
  worker.say({ type: "revoke", id: 3, task: "w/0", epoch: 1, deadlineMs: 10, code: "drain" });
  assert.equal((await wire.event("revoking")).task, task);
  wire.conn.release(task);
  worker.expect("released");
  await wire.conn.close();
  assert.equal(worker.closedWith, 1000);
  assert.equal(await wire.conn.next(), null);
  await assert.rejects(wire.conn.open(), /used already/);
});

function welcome() {
  return {
    type: "welcome",
    re: 1,
    version: 1,
    session: "c1",
    sidecar: { name: "p", version: "1" },
    group: "g",
    guarantee: "at_least_once",
    limits: { maxFrame: 1000, maxControl: 1000, maxCommitBytes: 1500, maxOutstandingCommits: 2 },
    credit: { connection: 1 << 20, stream: 1 << 20 },
    deadlines: { revokeMs: 1, workerGraceMs: 1, maxProcessingMs: 1 },
  } as const;
}

test("credit is granted when user code takes a frame, not when it comes", async () => {
  const wire = new Wire({ window: 1000 });
  const worker = await wire.opened();
  await wire.running(worker);
  const size = records(worker, 5, Buffer.alloc(400));
  records(worker, 6, Buffer.alloc(400));
  assert.deepEqual(worker.sent, []);
  await wire.event("records");
  assert.deepEqual(worker.expect("credit"), {
    type: "credit",
    connection: 1000 + size,
    streams: new Map([[1, 1000 + size]]),
  });
  await wire.conn.close();
});

test("what is left is granted when user code waits", async () => {
  const wire = new Wire();
  const worker = await wire.opened();
  await wire.running(worker);
  const size = records(worker, 5);
  await wire.event("records");
  assert.deepEqual(worker.sent, []);
  const waiting = wire.conn.next();
  await until(() => worker.sent.length > 0, "credit");
  assert.equal(worker.expect("credit").connection, (1 << 20) + size);
  wire.conn.stop();
  assert.equal(await waiting, null);
  await wire.conn.close();
});

test("the sidecar's credit holds writes back, but not control", async () => {
  const wire = new Wire();
  const worker = await wire.opened({ credit: { connection: 1 << 20, stream: 10 } });
  await wire.running(worker);
  records(worker, 5);
  const { batch } = await wire.event("records");
  const rows = [0, 1, 2].map((i) => [Buffer.from(String(i)), Buffer.alloc(200 << 10)] as const);
  const done = wire.conn.commit(batch, { changelog: { t: rows } });
  assert.equal(worker.sent.length, 1);
  wire.conn.progress();
  assert.ok(worker.next() instanceof Uint8Array);
  worker.expect("progress"); // overtakes
  assert.deepEqual(worker.sent, []);
  worker.say({ type: "credit", streams: new Map([[2, 2 ** 30]]) });
  assert.deepEqual(
    worker.sent.map((each) => typeof each),
    ["object", "object", "string"],
  );
  worker.say({ type: "committed", re: 2, task: "w/0", epoch: 1 });
  await done;
  await wire.conn.close();
});

test("credit of the connection holds the writes of all streams back", async () => {
  const wire = new Wire();
  const worker = await wire.opened({ credit: { connection: 10, stream: 1 << 20 } });
  await wire.running(worker);
  records(worker, 5);
  const { batch } = await wire.event("records");
  const row = [Buffer.from("k"), Buffer.from("v")] as const;
  void wire.conn.commit(batch, { changelog: { t: [row] }, outputs: { o: [row] } });
  assert.equal(worker.sent.length, 1);
  worker.say({ type: "credit", connection: 5 }); // an old one changes nothing
  assert.equal(worker.sent.length, 1);
  worker.say({ type: "credit", connection: 1000 });
  assert.equal(worker.sent.length, 3);
  await wire.conn.close();
});

test("lost fences at once, before its event is taken", async () => {
  const wire = new Wire();
  const worker = await wire.opened();
  const task = await wire.running(worker);
  records(worker, 5);
  records(worker, 6);
  const { batch } = await wire.event("records");
  worker.say({ type: "lost", task: "w/0", epoch: 1, code: "fenced" });
  assert.ok(batch.stale && !wire.conn.lives(task));
  await assert.rejects(
    wire.conn.commit(batch),
    (error) => error instanceof CommitStale && error.retriable,
  );
  assert.equal((await wire.event("lost")).task, task);
  await wire.conn.close();
});

test("what the sidecar would refuse is refused here, and at most two commits wait", async () => {
  const wire = new Wire();
  const worker = await wire.opened(welcome());
  const task = await wire.running(worker);
  records(worker, 5);
  const { batch } = await wire.event("records");
  const [one, key] = [Buffer.alloc(900), Buffer.from("k")];
  const cases = [
    [{ changelog: { t: [[null, one]] } }, "null_key", /has a null key/],
    [{ changelog: { nope: [] } }, "undeclared_output", /is not a table of task w\/0/],
    [{ changelog: { s: [] } }, "not_allowed", /is a read-only table/],
    [{ outputs: { nope: [] } }, "undeclared_output", /is not an output/],
    [{ outputs: { o: [[key, Buffer.alloc(2000)]] } }, "record_too_large", /is larger than/],
    [
      {
        outputs: {
          o: [
            [key, one],
            [key, one],
          ],
        },
      },
      "commit_too_large",
      /a commit of/,
    ],
    [{ outputs: { o: [["text", key]] } }, "usage", /where bytes belong/],
    [{ sourceNext: { nope: 1 } }, "bad_position", /names the sources nope; name one or more of w/],
    [{ sourceNext: { w: 1.5 } }, "bad_position", /names 1.5 as next offset/],
  ] as const;
  for (const [what, code, text] of cases) {
    assert.throws(
      () => void wire.conn.commit(batch, what as never),
      (error) => error instanceof CommitRejected && error.code === code && text.test(error.message),
    );
  }
  assert.deepEqual(worker.sent, []);
  const answers = [
    wire.conn.commit(batch),
    wire.conn.commit(task, { sourceNext: new Map([["w", 6]]) }),
  ];
  assert.throws(() => void wire.conn.commit(batch), /2 commits without an answer/);
  assert.deepEqual([worker.expect("commit").id, worker.expect("commit").id], [2, 3]);
  const about = { task: "w/0", epoch: 1, message: "too big" } as const;
  worker.say({ type: "aborted", re: 2, code: "record_too_large", ...about });
  worker.say({ type: "unknown", re: 3, code: "kafka_unreachable", ...about });
  const [first, second] = await Promise.allSettled(answers);
  assert.ok(first?.status === "rejected" && first.reason instanceof CommitAborted);
  assert.equal(first.reason.message, "too big (record_too_large)");
  assert.ok(second?.status === "rejected" && second.reason.retriable);
  await wire.conn.close();
});

test("commits that wait for credit are given up by close after a while", async () => {
  const wire = new Wire();
  const worker = await wire.opened({ credit: { connection: 1 << 20, stream: 10 } });
  await wire.running(worker);
  records(worker, 5);
  const { batch } = await wire.event("records");
  const rows = [0, 1].map((i) => [Buffer.from(String(i)), Buffer.alloc(200 << 10)] as const);
  const done = wire.conn.commit(batch, { changelog: { t: rows } });
  const closing = wire.conn.close();
  assert.equal(await wire.clock.pass(), 2000);
  await closing;
  await assert.rejects(done, /closed by this side/);
  await assert.rejects(wire.conn.commit(batch), ConnectionLost);
});

test("what the sidecar waits for is an event, and is said once", async () => {
  const wire = new Wire();
  const worker = await wire.opened();
  const away = {
    type: "waiting",
    code: "kafka_unreachable",
    message: "no broker answers; start Kafka",
  } as const;
  for (const message of [away, away, { type: "waiting", code: "ok" } as const]) {
    worker.say(message);
    await wire.event("waiting");
  }
  assert.deepEqual(wire.notices, ["no broker answers; start Kafka (kafka_unreachable)"]);
  await wire.conn.close();
});

test("where a key is", async () => {
  const wire = new Wire();
  await assert.rejects(wire.conn.locate({ table: "t", key: Buffer.of() }), /no sidecar answers/);
  const worker = await wire.opened({ features: ["locate"] });
  const first = wire.conn.locate({ table: "t", key: Buffer.of(0, 255) });
  const second = wire.conn.locate({ set: "w", partition: 3 });
  assert.deepEqual([worker.expect("locate").key, worker.expect("locate").partition], ["AP8=", 3]);
  worker.say({ type: "error", code: "joining", message: "not yet", re: 3 });
  const where = { set: "w", partition: 1, task: "w/1", stale: false } as const;
  const standbys = [{ member: "m2", lag: -1 }];
  worker.say({
    type: "located",
    re: 2,
    ...where,
    active: { member: "m1", address: "h:1" },
    standbys,
  });
  assert.deepEqual(await first, {
    ...where,
    active: { member: "m1", address: "h:1" },
    standbys: [{ member: "m2", address: "", lag: null }],
  });
  await assert.rejects(second, (error) => error instanceof LocateError && error.retriable);
  const tooLarge = wire.conn.locate({ table: "t", key: Buffer.alloc(1 << 20) });
  await assert.rejects(tooLarge, /too_large/);
  for (const wrong of [{ table: "t" }, { key: Buffer.of() }, { table: "t", key: "k" as never }]) {
    await assert.rejects(wire.conn.locate(wrong), UsageError);
  }
  const cut = wire.conn.locate({ table: "t", partition: 0 });
  worker.end(null);
  await assert.rejects(cut, ConnectionLost);
  await wire.conn.close();
});
