/** How connections end, and how they are made again; no time passes but the test's own. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { CloseCode, FrameKind } from "../src/codes.js";
import { encode } from "../src/encode.js";
import {
  ConnectionLost,
  HandshakeRefused,
  KafkaFatal,
  ProtocolError,
  Refused,
  SidecarUnreachable,
  Superseded,
  UsageError,
  VersionMismatch,
} from "../src/errors.js";
import { records, Wire } from "./wire.js";

test("the connection breaks in the middle of a commit, of which nothing is sent again", async () => {
  const wire = new Wire();
  let worker = await wire.opened({ credit: { connection: 32 << 20, stream: 40 } });
  let task = await wire.running(worker);
  records(worker, 5);
  const { batch } = await wire.event("records");
  records(worker, 6); // queued, not taken
  const rows = [0, 1, 2].map((i) => [Buffer.from(String(i)), Buffer.alloc(200 << 10)] as const);
  const first = wire.conn.commit(batch, { changelog: { t: rows } }); // three frames, credit for one
  const second = wire.conn.commit(batch);
  assert.equal(worker.sent.length, 1);
  worker.end(null);
  await assert.rejects(first, ConnectionLost);
  await assert.rejects(second, ConnectionLost);
  const lost = await wire.event("lost");
  assert.deepEqual([lost.task, lost.code, batch.stale], [task, "connection_lost", true]);
  await assert.rejects(wire.conn.commit(batch), /stale_epoch/);
  assert.equal(await wire.clock.pass(), 100);
  worker = await wire.accepts();
  task = await wire.running(worker);
  assert.deepEqual(worker.sent, []);
  records(worker, 5);
  const again = await wire.event("records");
  const done = wire.conn.commit(again.batch);
  assert.equal(worker.expect("commit").id, 2);
  worker.say({ type: "committed", re: 2, task: "w/0", epoch: 1 });
  await done;
  await wire.conn.close();
});

test("a commit that nobody waits for may fail", async () => {
  const wire = new Wire();
  const worker = await wire.opened();
  await wire.running(worker);
  records(worker, 5);
  void wire.conn.commit((await wire.event("records")).batch); // an unhandled rejection would end the test
  worker.end(null);
  await wire.event("lost");
  await wire.conn.close();
});

for (const code of [null, 1000, 1001, 1011, 4408, 4414, 4500, 4999]) {
  test(`it comes again after ${code}`, async () => {
    const wire = new Wire();
    const worker = await wire.opened();
    await wire.running(worker);
    worker.end(code);
    await wire.event("lost");
    await wire.clock.pass();
    await wire.running(await wire.accepts());
    await wire.conn.close();
  });
}

const FINAL = [
  [CloseCode.BadMessage, ProtocolError, "bad_message"],
  [CloseCode.Refused, Refused, "refused"],
  [CloseCode.Superseded, Superseded, "superseded"],
  [CloseCode.Version, VersionMismatch, "version"],
  [CloseCode.TooLarge, ProtocolError, "too_large"],
  [CloseCode.CreditOverrun, ProtocolError, "credit_overrun"],
  [CloseCode.KafkaFatal, KafkaFatal, "kafka_fatal"],
] as const;

for (const [code, kind, name] of FINAL) {
  test(`it stays away after ${code}`, async () => {
    const wire = new Wire();
    const worker = await wire.opened();
    await wire.running(worker);
    records(worker, 5);
    const { batch } = await wire.event("records");
    const pending = wire.conn.commit(batch);
    worker.end(code);
    await wire.event("lost");
    await assert.rejects(
      wire.conn.next(),
      (error) => error instanceof kind && error.code === name && !error.retriable,
    );
    await assert.rejects(pending, kind);
    await assert.rejects(wire.conn.commit(batch), kind);
    await wire.conn.close();
    assert.equal(wire.attempts, 1);
  });
}

test("drained ends the iteration", async () => {
  const wire = new Wire();
  const worker = await wire.opened();
  worker.end(CloseCode.Drained);
  for await (const event of wire.conn) {
    assert.fail(event.type);
  }
  await wire.conn.close();
});

test("the error before a close is the sentence", async () => {
  const wire = new Wire();
  const opening = wire.conn.open();
  const worker = await wire.accepts(null);
  const message = "topic words does not exist at localhost:9092; create it";
  worker.say({ type: "error", code: "unknown_topic", message, re: 1 });
  worker.end(CloseCode.Refused);
  await assert.rejects(
    opening,
    (error) => error instanceof Refused && error.message === `${message} (unknown_topic)`,
  );
});

test("pauses double up to five seconds, with jitter, and begin anew after a welcome", async () => {
  for (const [random, factor] of [
    [0, 0.8],
    [0.5, 1],
    [1, 1.2],
  ] as const) {
    const wire = new Wire({}, random);
    const opening = wire.conn.open();
    const pauses: number[] = [];
    for (let i = 0; i < 8; i++) {
      const before = wire.clock.now();
      (await wire.dials()).refuse();
      await wire.clock.pass(); // the notice makes the fifth one shorter
      pauses.push(Math.round(wire.clock.now() - before));
    }
    const due = [100, 200, 400, 800, 1600, 3200, 5000, 5000].map((ms) => Math.round(ms * factor));
    assert.deepEqual(pauses.slice(0, 4), due.slice(0, 4));
    assert.deepEqual(pauses.slice(-1), due.slice(-1));
    const worker = (await wire.dials()).accept();
    worker.end(1000); // without a welcome: it goes on
    assert.equal(Math.round(await wire.clock.pass()), due.at(-1));
    (await wire.accepts()).end(1000);
    await opening;
    assert.equal(Math.round(await wire.clock.pass()), due[0]);
    await wire.conn.close();
  }
});

test("that no sidecar answers is said once, after three seconds", async () => {
  const wire = new Wire();
  const opening = wire.conn.open();
  while (wire.clock.now() < 10_000) {
    (await wire.dials()).refuse();
    await wire.clock.pass();
    assert.ok(wire.clock.now() > 3000 || wire.notices.length === 0);
  }
  assert.deepEqual(wire.notices, [
    "no sidecar answers at ws://127.0.0.1:1; start it with 'pillion run', or set PILLION_URL to where it listens (sidecar_unreachable)",
  ]);
  await wire.accepts();
  await opening;
  await wire.conn.close();
});

test("a first connection may be given up", async () => {
  const wire = new Wire({ connectTimeoutMs: 1000 });
  const opening = wire.conn.open();
  const refused = assert.rejects(opening, SidecarUnreachable);
  while (wire.clock.now() < 1000) {
    const { attempt, refuse } = await wire.dials();
    assert.ok(attempt.timeoutMs <= 1000);
    refuse();
    await wire.clock.pass();
  }
  (await wire.dials()).refuse();
  await refused;
  assert.deepEqual(wire.notices, []);
});

test("a handshake that is refused for good is final", async () => {
  const wire = new Wire();
  const opening = wire.conn.open();
  (await wire.dials()).refuse(
    new HandshakeRefused("the sidecar refuses the token", "unauthorized"),
  );
  await assert.rejects(opening, HandshakeRefused);
  assert.equal(wire.attempts, 1);
});

test("a token file that is not there is said at once", async () => {
  process.env.PILLION_TOKEN_FILE = "/nowhere/token";
  try {
    const said = /the token file \/nowhere\/token cannot be read: ENOENT; set PILLION_TOKEN_FILE/;
    await assert.rejects(
      new Wire().conn.open(),
      (error) => error instanceof UsageError && said.test(error.message),
    );
  } finally {
    delete process.env.PILLION_TOKEN_FILE;
  }
});

test("an aborted signal ends a first connection, and later the iteration", async () => {
  const before = new AbortController();
  const never = new Wire({ signal: before.signal });
  const opening = never.conn.open();
  await never.dials();
  before.abort(new Error("enough"));
  await assert.rejects(opening, /enough/);
  await assert.rejects(new Wire({ signal: before.signal }).conn.open(), /enough/);

  const later = new AbortController();
  const wire = new Wire({ signal: later.signal });
  const worker = await wire.opened();
  await wire.running(worker);
  records(worker, 5);
  const { batch } = await wire.event("records");
  const waiting = wire.conn.next();
  later.abort();
  assert.equal(await waiting, null);
  const done = wire.conn.commit(batch); // what is finished is committed
  worker.say({ type: "committed", re: worker.expect("commit").id, task: "w/0", epoch: 1 });
  await done;
  await wire.conn[Symbol.asyncDispose]();
  assert.equal(worker.closedWith, 1000);
});

test("close ends a wait for the next attempt", async () => {
  const wire = new Wire();
  const worker = await wire.opened();
  worker.end(null);
  await wire.conn.close();
  assert.equal(await wire.conn.next(), null);
  assert.equal(wire.attempts, 1);
});

test("a message over the agreed size is final", async () => {
  const wire = new Wire({ maxFrame: 1000 });
  const worker = await wire.opened();
  worker.end(1009, true);
  await assert.rejects(wire.conn.next(), /more than 1000 bytes at once \(too_large\)/);
  await wire.conn.close();
});

test("hostile data ends in a documented error", async () => {
  const alone = encode({
    kind: FrameKind.Records,
    stream: 1,
    epoch: 1,
    base: 9,
    next: 9,
    keys: [],
    values: [],
  });
  const frames = [Buffer.of(), Buffer.alloc(60, 1), Buffer.alloc(48), alone.subarray(1)];
  for (const data of ["{", "[]", '{"type":"lost"}', ...frames]) {
    const wire = new Wire();
    const worker = await wire.opened();
    await wire.running(worker);
    worker.raw(data);
    worker.say({ type: "waiting", code: "ok" }); // heard by nobody
    assert.equal(worker.expect("error").code, "bad_message");
    assert.equal(worker.closedWith, 4400);
    await wire.event("lost");
    await assert.rejects(wire.conn.next(), ProtocolError);
    await wire.conn.close();
  }
});

test("more than the credit closes with 4429", async () => {
  const wire = new Wire({ window: 100 });
  const worker = await wire.opened();
  await wire.running(worker);
  records(worker, 5, Buffer.alloc(100));
  records(worker, 6, Buffer.alloc(100));
  assert.equal(worker.closedWith, 4429);
  await wire.event("lost");
  await assert.rejects(wire.conn.next(), /credit_overrun/);
  await wire.conn.close();
});
