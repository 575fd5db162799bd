/** How a Worker fails and ends, how it is started beside other things, and what it can be asked. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { CloseCode } from "../../src/codes.js";
import { Superseded, UsageError } from "../../src/errors.js";
import { bytes, str } from "../../src/serdes/index.js";
import { FakeSidecar } from "../../src/testing/index.js";
import { HandlerFailed, skip } from "../../src/worker/policy.js";
import { Worker } from "../../src/worker/worker.js";
import { App, Gate, held, pair, pairs, positionsOf, rowsOf, staged, until } from "./working.js";

const NOWHERE = "ws://127.0.0.1:9";

test("a failure commits what was before, and ends the run", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker);
  const task = await s.open("words");
  s.records(task, "words", ...pairs("a", "fail", "c"));
  const commit = await s.commit();
  assert.deepEqual(rowsOf(commit), { lists: [["k", '["a"]']] });
  assert.equal(commit.outputs.get("out")?.length, 1);
  assert.deepEqual(positionsOf(commit), { words: 1 });
  const failed: unknown = await s.work.catch((error: unknown) => error);
  assert.ok(failed instanceof HandlerFailed);
  assert.equal(
    failed.message,
    "onWord has failed at words/0 offset 1: RangeError: no such word; what was before is committed, " +
      "and the next start begins there (handler_failed)",
  );
  assert.ok(failed.cause instanceof RangeError);
  assert.deepEqual(it.calls, ["a", "fail"]);
  assert.equal(s.runtime.failure, failed);
  await assert.rejects(it.worker.ended(), failed);
  await it.worker.stop(); // which has nothing new to say
});

test("what is thrown may be anything", async (t) => {
  const worker = new Worker({ group: "g" });
  worker.each(worker.topic("words", { key: str(), value: str() }), function onWord() {
    throw null;
  });
  const s = await staged(t, worker);
  s.records(await s.open("words"), "words", ...pairs("a"));
  await assert.rejects(s.work, /onWord has failed at words\/0 offset 0: null was thrown/);
});

test("what a worker has not declared is no fault of a record", async (t) => {
  const worker = new Worker({ group: "g", onError: skip() });
  const out = new Worker({ group: "g" }).output("out", { key: str(), value: str() });
  worker.each(worker.topic("words", { key: str(), value: str() }), function onWord({ key }, ctx) {
    ctx.send(out, { key });
  });
  const s = await staged(t, worker);
  s.records(await s.open("words"), "words", ...pairs("a"));
  await assert.rejects(s.work, (error: Error) => {
    assert.ok(error instanceof UsageError);
    assert.match(error.message, /^onWord writes to 'out', which is no output/);
    return true;
  });
});

test("progress() of a plain function is a mistake", async (t) => {
  const worker = new Worker({ group: "g", onError: skip() });
  worker.each(worker.topic("words", { key: str(), value: str() }), function onWord(_, ctx) {
    ctx.progress();
  });
  const s = await staged(t, worker);
  s.records(await s.open("words"), "words", ...pairs("a"));
  await assert.rejects(s.work, /^UsageError: onWord is a plain function/);
});

test("a failing batch is dropped whole", async (t) => {
  const it = new App({ batches: true });
  const s = await staged(t, it.worker, { commitIntervalMs: 60_000 });
  const task = await s.open("words");
  s.records(task, "words", ...pairs("a"));
  await s.waiting();
  s.records(task, "words", ...pairs("b", "fail"));
  const commit = await s.commit();
  assert.deepEqual(rowsOf(commit), { lists: [["k", '["a"]']] });
  assert.deepEqual(positionsOf(commit), { words: 1 });
  await assert.rejects(s.work, /in the batch of words\/0 from offset 1: RangeError/);
});

test("other tasks commit before the end", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker, { commitIntervalMs: 60_000 });
  const [one, two] = [await s.open("words", 0), await s.open("words", 1)];
  s.records(one, "words", ...pairs("a"));
  await s.waiting();
  s.records(two, "words", ...pairs("fail"));
  assert.equal((await s.commit()).message.task, "words/0");
  await assert.rejects(s.work, HandlerFailed);
});

test("stop in a handler", async (t) => {
  const worker = new Worker({ group: "g" });
  worker.each(worker.topic("words", { key: str(), value: str() }), async () => {
    await Promise.all([worker.stop(), new Promise(setImmediate).then(() => worker.stop())]);
    await worker.stop();
  });
  const s = await staged(t, worker);
  s.records(await s.open("words"), "words", ...pairs("a", "b"));
  assert.deepEqual(positionsOf(await s.commit()), { words: 1 });
  await s.work;
  await worker.stop();
});

test("what a handler has left running waits for the end as others do", async (t) => {
  const worker = new Worker({ group: "g" });
  const go = new Gate();
  let stopped: Promise<void> = Promise.resolve();
  worker.each(worker.topic("words", { key: str(), value: str() }), () => {
    stopped = go.opened.then(() => worker.stop());
  });
  const s = await staged(t, worker);
  s.records(await s.open("words"), "words", ...pairs("a"));
  await s.commit();
  go.open();
  await stopped;
  assert.ok(s.runtime.over);
});

test("stop is bounded, and nothing that a late handler does counts", async (t) => {
  const it = new App();
  const [s] = await held(t, it);
  const stopped = it.worker.stop({ timeoutMs: 1000 });
  await s.waiting();
  s.pass(999);
  await s.fake.expectNothing();
  assert.ok(!s.runtime.over);
  s.pass(1);
  await stopped;
  await s.work;
  it.go.open();
  await s.fake.closed();
  assert.deepEqual(s.fake.pending(), []);
});

test("a handler that outlives its run keeps its task", async (t) => {
  const it = new App();
  let [s] = await held(t, it);
  await it.worker.stop({ timeoutMs: 0 });
  s = await staged(t, it.worker);
  const [task, other] = [await s.open("words", 0), await s.open("words", 1)];
  s.records(task, "words", ...pairs("a"));
  s.records(other, "words", ...pairs("b"));
  assert.equal((await s.commit()).message.task, "words/1");
  await s.fake.expectNothing();
  assert.deepEqual(it.calls, ["wait", "b"]);
  it.go.open();
  const commit = await s.commit();
  assert.deepEqual([commit.message.task, positionsOf(commit)], ["words/0", { words: 1 }]);
  assert.deepEqual(rowsOf(commit), { lists: [["k", '["a"]']] });
});

test("stop without a sidecar", async () => {
  const it = new App({ url: NOWHERE });
  const started = it.worker.start();
  await Promise.all([assert.rejects(started, /the worker has ended/), it.worker.stop()]);
  const aborted = new AbortController();
  const other = new App({ url: NOWHERE, signal: aborted.signal });
  const starting = other.worker.start();
  aborted.abort();
  await assert.rejects(starting, /the worker has ended/);
  await other.worker.ended();
  await assert.rejects(other.worker.start(), { name: "AbortError" });
});

test("a signal stops the worker", async (t) => {
  const aborted = new AbortController();
  const it = new App({ signal: aborted.signal });
  const [s] = await held(t, it);
  aborted.abort();
  it.go.open();
  await s.commit();
  await s.work;
});

test("a first connection has its time", async () => {
  const it = new App({ url: NOWHERE, connectTimeoutMs: 1 });
  await assert.rejects(it.worker.start(), { code: "sidecar_unreachable" });
  await it.worker.stop();
  await assert.rejects(it.worker.ready(), { code: "sidecar_unreachable" });
});

test("a drained sidecar ends it well", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker);
  const task = await s.open("words");
  s.fake.revoke(task);
  await s.fake.expect("released");
  await it.worker.ready();
  assert.ok(it.worker.isReady);
  await s.fake.close(CloseCode.Drained);
  await s.work;
  await it.worker.ended();
  assert.ok(!it.worker.isReady);
  await assert.rejects(it.worker.ready(), /the worker has ended/);
});

test("who waits hears why a started worker has failed", async (t) => {
  const sidecar = await FakeSidecar.listen();
  t.after(() => sidecar.close());
  const it = new App({ url: sidecar.url });
  const [fake] = await Promise.all([sidecar.accept(), it.worker.start()]);
  const heard = Promise.allSettled([it.worker.ended(), it.worker.ready(), it.worker.ended()]);
  await fake.close(CloseCode.Superseded);
  for (const each of await heard) {
    assert.ok(each.status === "rejected" && each.reason instanceof Superseded);
  }
  await it.worker.stop();
});

test("leaving the block of a worker that fails throws why, once", async (t) => {
  const sidecar = await FakeSidecar.listen();
  t.after(() => sidecar.close());
  const it = new App({ url: sidecar.url });
  it.take = async () => {
    it.inside.open();
    await it.go.opened;
    throw new RangeError("late");
  };
  const block = async (): Promise<void> => {
    await using worker = it.worker;
    const [fake] = await Promise.all([sidecar.accept(), worker.start()]);
    fake.records(await fake.start("words"), "words", pairs("a"));
    await it.inside.opened;
    setImmediate(it.go.open);
  };
  await assert.rejects(block(), /RangeError: late/);
  await it.worker.stop();
});

test("a start that is refused rejects", async (t) => {
  const sidecar = await FakeSidecar.listen();
  t.after(() => sidecar.close());
  const it = new App({ url: sidecar.url });
  const accepted = sidecar.accept({ welcome: false }).then((fake) => fake.close(CloseCode.Refused));
  await assert.rejects(it.worker.start(), { code: "refused" });
  await accepted;
  await it.worker.stop();
});

test("local rows of actives and standbys", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker);
  const active = await s.open("words", 0);
  const standby = s.fake.assign("words", 1, { role: "standby" });
  await s.fake.expect("opened");
  s.fake.restore(standby, "lists", [pair("there", '["x"]')]);
  s.records(active, "words", pair("here", "wait"));
  await it.inside.opened;
  await it.worker.ready();
  const rows = it.worker.local(it.lists);
  await until(() => rows.has("there"));
  assert.deepEqual([...rows], [["there", ["x"]]]); // the other one is not committed yet
  it.go.open();
  await s.commit();
  await until(() => rows.has("here"));
  assert.deepEqual([rows.get("here"), rows.get("gone"), rows.size], [["wait"], undefined, 2]);
  s.fake.lose(active);
  await until(() => !rows.has("here"));
  await it.worker.stop();
  assert.throws(() => rows.get("there"), /the worker has ended/);
});

test("a worker whose tasks went elsewhere is ready", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker);
  const task = await s.open("words");
  s.records(task, "words", ...pairs("a"));
  await s.commit();
  const rows = it.worker.local(it.lists);
  await until(() => rows.has("k"));
  s.fake.lose(task);
  await until(() => !rows.has("k"));
  await it.worker.ready();
});

test("nothing is asked of a worker that does not run", async () => {
  const it = new App();
  assert.throws(() => it.worker.local(it.lists), /does not run/);
  await assert.rejects(it.worker.ready(), /does not run/);
  await assert.rejects(it.worker.ended(), /does not run/);
  await assert.rejects(it.worker.locate(it.lists, "k"), /does not run/);
  assert.ok(!it.worker.isReady);
  await it.worker.stop();
});

test("a worker runs once at a time, and declares nothing then", async (t) => {
  const it = new App();
  await staged(t, it.worker);
  await assert.rejects(it.worker.start(), /runs already/);
  assert.throws(
    () => it.worker.topic("late", { key: bytes(), value: bytes() }),
    /declared while the worker runs/,
  );
});

test("locate by key and by partition", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker);
  const task = await s.open("words", 3);
  for (const where of ["ann", { partition: 3 }]) {
    const asking = it.worker.locate(it.lists, where);
    const question = await s.fake.expect("locate");
    assert.equal(question.table, "lists");
    const asked = [question.key ?? "", question.partition];
    assert.deepEqual(asked, where === "ann" ? ["YW5u", undefined] : ["", 3]);
    s.fake.send({
      type: "located",
      re: question.id,
      set: "words",
      partition: 3,
      task: "words/3",
      stale: false,
      active: { member: "m1", address: "host:1" },
      standbys: [],
    });
    const found = await asking;
    assert.deepEqual([found.partition, found.active?.address], [3, "host:1"]);
    // The group may name this worker before and after it has the task.
    assert.equal(found.here, where === "ann");
    if (found.here) {
      s.fake.revoke(task);
      await s.fake.expect("released");
    }
  }
});

test("located directly behind lost is not here", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker);
  const task = await s.open("words", 3);
  const asking = it.worker.locate(it.lists, { partition: 3 });
  const { id } = await s.fake.expect("locate");
  s.fake.lose(task);
  s.fake.send({
    type: "located",
    re: id,
    set: "words",
    partition: 3,
    task: "words/3",
    stale: false,
    active: { member: "m2", address: "host:2" },
    standbys: [],
  });
  assert.equal((await asking).here, false);
});

test("options that cannot be", () => {
  const wrong: [object, RegExp][] = [
    [{ commitIntervalMs: -1 }, /commitIntervalMs must be a number from 0 on/],
    [{ replicas: 1.5 }, /replicas must be a whole number from 0 on/],
    [{ onError: "skip" }, /onError of the worker must be/],
    [{ stateDir: "state", stores: { open() {} } }, /give one of them/],
  ];
  for (const [options, sentence] of wrong) {
    assert.throws(() => new Worker(options), sentence);
  }
});
