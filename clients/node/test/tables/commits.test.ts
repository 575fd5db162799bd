/** What user code writes: seen at once, stored when it is committed. */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CommitAborted,
  CommitRejected,
  CommitStale,
  MemoryStore,
  outcome,
  StoreError,
  Tables,
} from "../../src/client.js";
import { ASSIGN } from "../hand.js";
import { Wire } from "../wire.js";
import { b, changelog, only, Stage, text } from "./stage.js";

/** A task whose row a=1 is in a commit that has no answer yet. */
async function underWay(s: Stage) {
  const [fake, task] = await s.start();
  const batch = await s.records(fake, "x");
  s.view(task).write("a", b("1"));
  const pending = s.tables.commit(batch);
  const commit = await s.worker.commit();
  return { fake, task, pending, commit };
}

test("writes are seen at once, and stored when they are committed", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.start();
  const counts = s.view(task);
  const batch = await s.records(fake, "x");
  counts.write("a", b("1"));
  counts.write("b", b("2"));
  counts.write("b", null);
  assert.deepEqual(text(counts.scan()), { a: "1" });
  const store = s.store(task);
  assert.deepEqual([store.size, store.checkpoint()], [0, null]);
  const first = await s.commit(batch);
  assert.deepEqual(changelog(first), { counts: { a: "1", b: null } });
  assert.deepEqual(first.message.sourceNext, new Map([["words", 1]]));
  assert.deepEqual([text(store.items()), store.checkpoint()], [{ a: "1" }, "v1:counts:2"]);
  assert.deepEqual([text(counts.scan()), counts.find("b")], [{ a: "1" }, null]);
  const second = await s.commit(await s.records(fake, "y"));
  assert.deepEqual([changelog(second), store.checkpoint()], [{}, "v1:counts:2"]);
});

test("a key that is written while its commit is pending stays", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.start();
  const counts = s.view(task);
  const batch = await s.records(fake, "x");
  counts.writeAll(
    new Map([
      ["a", b("1")],
      ["b", b("1")],
    ]),
  );
  const pending = s.tables.commit(batch);
  const first = await s.worker.commit();
  counts.write("a", b("2"));
  s.worker.committed(first);
  await pending;
  assert.deepEqual(text(s.store(task).items()), { a: "1", b: "1" });
  assert.equal(counts.find("a")?.toString(), "2");
  const commit = await s.commit(await s.records(fake, "y"));
  assert.deepEqual(changelog(commit), { counts: { a: "2" } });
});

test("rows of a commit that is answered after lost stay out", async (t) => {
  const s = await Stage.open(t);
  const { fake, task, pending, commit } = await underWay(s);
  s.worker.lose(fake);
  s.worker.committed(commit);
  await pending; // user code has not seen lost yet
  const store = s.store(task);
  assert.deepEqual([store.size, store.checkpoint()], [0, null]);
  await s.event("lost");
});

test("two commits on their way do not repeat rows", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.start();
  const counts = s.view(task);
  const commits = [];
  for (const value of ["1", "2"]) {
    const batch = await s.records(fake, "x");
    counts.write(`a${value}`, b(value));
    counts.write("both", b(value));
    commits.push(s.tables.commit(batch));
  }
  assert.deepEqual(text(counts.scan()), { a1: "1", a2: "2", both: "2" });
  const [first, second] = [await s.worker.commit(), await s.worker.commit()];
  assert.deepEqual(changelog(first), { counts: { a1: "1", both: "1" } });
  assert.deepEqual(changelog(second), { counts: { a2: "2", both: "2" } });
  s.worker.committed(first);
  assert.notEqual(await commits[0], null);
  const store = s.store(task);
  const seen = [store.get("both")?.toString(), counts.find("both")?.toString()];
  assert.deepEqual(seen, ["1", "2"]);
  s.worker.committed(second);
  assert.notEqual(await commits[1], null);
  assert.deepEqual(text(store.items()), { a1: "1", a2: "2", both: "2" });
});

test("a commit that nobody waits for goes on", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.start();
  for (const value of ["1", "2"]) {
    const batch = await s.records(fake, "x");
    s.view(task).write("both", b(value));
    s.tables.send(task, { words: batch.nextOffset });
  }
  for (const commit of [await s.worker.commit(), await s.worker.commit()]) {
    s.worker.committed(commit);
  }
  const commit = await s.commit(await s.records(fake, "y"));
  assert.deepEqual(changelog(commit), {});
  assert.deepEqual(text(s.store(task).items()), { both: "2" });
});

test("a commit goes no further than its batch", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.start();
  const first = await s.records(fake, "x", "y");
  const second = await s.records(fake, "z");
  const next = async (batch: typeof first) =>
    (await s.commit(batch)).message.sourceNext.get("words");
  assert.deepEqual([await next(first), await next(second), await next(first)], [2, 3, 3]);
  await s.records(fake, "z");
  const done = s.tables.commit(task);
  const commit = await s.worker.commit();
  s.worker.committed(commit);
  assert.notEqual(await done, null);
  assert.deepEqual(commit.message.sourceNext, new Map([["words", 4]]));
});

test("what is refused at once stays written", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.start();
  const batch = await s.records(fake, "x");
  s.view(task).write("a", b("1"));
  await assert.rejects(s.tables.commit(batch, { outputs: { nope: [] } }), {
    name: CommitRejected.name,
    message: /not an output/,
  });
  assert.deepEqual(changelog(await s.commit(batch)), { counts: { a: "1" } });
});

test("a commit that does not land changes no store", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.start();
  const batch = await s.records(fake, "x");
  s.view(task).write("a", b("1"));
  const pending = s.tables.commit(batch);
  const { message } = await s.worker.commit();
  s.worker.lose(fake);
  s.worker.send({ type: "stale", re: message.id, task: fake.name, epoch: fake.epoch });
  assert.equal(await pending, null);
  assert.equal(s.store(task).size, 0);
  await s.event("lost");
  assert.equal(await s.tables.commit(batch), null);
  await assert.rejects(s.tables.send(task, { words: 1 }), CommitStale);
  assert.equal(await outcome(s.tables.send(task, { words: 1 })), null);
  const [, again] = await s.start();
  assert.deepEqual(text(s.view(again).scan()), {});
});

test("a commit that no repetition can land is thrown", async (t) => {
  const s = await Stage.open(t);
  const [fake] = await s.start();
  const pending = s.tables.commit(await s.records(fake, "x"));
  const refused = assert.rejects(pending, { name: CommitAborted.name, message: /too big/ });
  const { message } = await s.worker.commit();
  s.worker.send({
    type: "aborted",
    re: message.id,
    task: fake.name,
    epoch: fake.epoch,
    code: "record_too_large",
    message: "too big",
  });
  await refused;
});

test("a store that cannot take a commit comes anew", async (t) => {
  class Full extends MemoryStore {
    override applyCommit(): void {
      throw new StoreError("the disk is full");
    }
  }
  const s = await Stage.open(t, only(new Full()));
  const [fake, task] = await s.start();
  const batch = await s.records(fake, "x");
  s.worker.records(fake, "words", [[b("k"), b("never seen")]]);
  s.view(task).write("a", b("1"));
  await s.commit(batch); // it is in Kafka
  const error = await s.worker.expect("error");
  assert.deepEqual([error.code, error.message], ["store_open_failed", "the disk is full"]);
  assert.deepEqual(s.notices, ["the disk is full (store_open_failed)"]);
  const following = s.event("lost");
  s.worker.lose(fake, "store_open_failed");
  await following;
  await s.start();
});

test("what was committed before demoted is in the copy", async (t) => {
  const s = await Stage.open(t);
  const { fake, pending, commit } = await underWay(s);
  s.worker.committed(commit);
  const copied = s.worker.demote(fake); // at once: both may be read together
  const demoted = await s.event("demoted");
  assert.deepEqual(text(s.view(demoted.task).scan()), { a: "1" });
  const stored = s.store(demoted.task).checkpoint();
  assert.equal(stored, `v1:counts:${commit.message.id}`);
  assert.notEqual(await pending, null);
  await s.restore(copied, "counts", { b: "2" });
  assert.deepEqual(text(s.view(demoted.task).scan()), { a: "1", b: "2" });
});

test("what is answered after demoted is not", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.start();
  const batch = await s.records(fake, "x");
  s.view(task).write("a", b("1"));
  const pending = s.tables.commit(batch);
  const { message } = await s.worker.commit();
  s.worker.demote(fake);
  const demoted = await s.event("demoted");
  s.worker.send({ type: "stale", re: message.id, task: fake.name, epoch: fake.epoch });
  assert.equal(await pending, null);
  assert.deepEqual(text(s.view(demoted.task).scan()), {});
});

test("INVARIANT: a commit is in the store before what came behind its answer", async () => {
  // All in one turn of the event loop, behind a message that wakes the reader and gives no event.
  const w = new Wire();
  const worker = await w.opened();
  const store = new MemoryStore();
  const tables = new Tables(w.conn, {
    open: (_, table) => (table === "t" ? store : new MemoryStore()),
  });
  const next = async () => {
    const event = await tables.next();
    assert.ok(event !== null && "task" in event);
    return event.task;
  };
  worker.say(ASSIGN);
  await next();
  worker.say({ type: "restored", id: 2, task: "w/0", epoch: 1 });
  const task = await next();
  tables.of(task).get("t")?.write("a", b("1"));
  tables.send(task, { w: 5 });
  worker.expect("opened");
  worker.expect("ready");
  worker.next(); // its rows
  const { id } = worker.expect("commit");
  const demoted = next();
  await new Promise((resolve) => setImmediate(resolve)); // it waits
  await new Promise((resolve) => setImmediate(resolve));
  const streams = (ASSIGN.tables ?? []).map((each, i) => ({ ...each, stream: 10 + i }));
  worker.say({ type: "credit", connection: 1 << 21, streams: new Map() });
  worker.say({
    type: "committed",
    re: id,
    task: "w/0",
    epoch: 1,
    checkpoints: new Map([["t", "v1:x"]]),
  });
  worker.say({ type: "demoted", task: "w/0", epoch: 2, tables: streams });
  const seen = demoted.then((now) => [
    text(tables.of(now).get("t")?.scan() ?? []),
    store.checkpoint(),
  ]);
  assert.deepEqual(await seen, [{ a: "1" }, "v1:x"]);
  tables.close();
  const closed = w.conn.close();
  worker.end(null);
  await closed;
});
