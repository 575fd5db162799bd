/** A Worker at a sidecar: units, commits, hand-over, tables that are replayed or fail. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreError } from "../../src/errors.js";
import { MemoryStore, type Store, type Stores } from "../../src/stores/index.js";
import type { FakeCommit } from "../../src/testing/index.js";
import { App, held, pair, pairs, positionsOf, rowsOf, staged, until, whole } from "./working.js";

const LIMITS = {
  maxFrame: 1 << 20,
  maxControl: 1 << 20,
  maxCommitBytes: 4096,
  maxOutstandingCommits: 2,
};

test("a commit has one write per key", async (t) => {
  const it = new App({ batches: true });
  const s = await staged(t, it.worker);
  const task = await s.open("words");
  s.records(task, "words", ...pairs("a", "b"), pair("x", "c"));
  const commit = await s.commit();
  assert.deepEqual(rowsOf(commit), {
    lists: [
      ["k", '["a","b"]'],
      ["x", '["c"]'],
    ],
  });
  assert.deepEqual(
    commit.outputs.get("out")?.map(([key]) => String(key)),
    ["k", "k", "x"],
  );
  assert.deepEqual(positionsOf(commit), { words: 3 });
  s.records(task, "words", ...pairs("d"));
  assert.deepEqual(rowsOf(await s.commit()), { lists: [["k", '["a","b","d"]']] });
});

test("commits wait for the interval", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker, { commitIntervalMs: 5000 });
  const task = await s.open("words");
  s.records(task, "words", ...pairs("a"));
  await s.waiting();
  s.records(task, "words", ...pairs("b"));
  await until(() => it.calls.length === 2);
  await s.fake.expectNothing();
  s.pass(5000);
  const commit = await s.commit();
  assert.deepEqual(rowsOf(commit), { lists: [["k", '["a","b"]']] });
  assert.deepEqual(positionsOf(commit), { words: 2 });
});

test("what is done is committed beside a handler that waits", async (t) => {
  const it = new App();
  const [s] = await held(t, it, ["a", "wait", "c"], { commitIntervalMs: 5000 });
  s.pass(5000);
  let commit = await s.commit();
  assert.deepEqual(rowsOf(commit), { lists: [["k", '["a"]']] });
  assert.deepEqual(positionsOf(commit), { words: 1 });
  assert.equal(commit.outputs.get("out")?.length, 1);
  it.go.open();
  await until(() => it.calls.length === 3);
  s.pass(5000);
  commit = await s.commit();
  assert.deepEqual(rowsOf(commit), { lists: [["k", '["a","wait","c"]']] });
  assert.deepEqual(positionsOf(commit), { words: 3 });
});

test("commits beside a handler wait for those before", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker, { commitIntervalMs: 5000 });
  const task = await s.open("words");
  s.records(task, "words", ...pairs("a"));
  await until(() => it.calls.length === 1);
  s.pass(5000);
  const first = await s.fake.commit();
  s.records(task, "words", ...pairs("b"));
  await until(() => it.calls.length === 2);
  s.pass(5000);
  const second = await s.fake.commit();
  s.records(task, "words", pair("k", "c"), pair("k", "wait"));
  await it.inside.opened;
  s.pass(5000);
  await s.fake.expectNothing();
  s.fake.committed(first);
  const third = await s.fake.commit();
  assert.deepEqual(rowsOf(third), { lists: [["k", '["a","b","c"]']] });
  s.fake.committed(second);
  s.fake.committed(third);
  it.go.open();
});

test("it works on while two commits wait", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker);
  const task = await s.open("words");
  for (const word of ["a", "b", "c", "d"]) {
    s.records(task, "words", ...pairs(word));
  }
  const first = await s.fake.commit();
  const second = await s.fake.commit();
  await until(() => it.calls.length === 4);
  await s.fake.expectNothing();
  s.fake.committed(first);
  s.fake.committed(second);
  const rest = await s.commit();
  const end = positionsOf(rest).words;
  assert.ok(end === 3 || end === 4);
  assert.deepEqual(rowsOf(rest), {
    lists: [["k", end === 3 ? '["a","b","c"]' : '["a","b","c","d"]']],
  });
});

test("what was aborted comes again", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker);
  let task = await s.open("words");
  s.records(task, "words", ...pairs("a"));
  const { id, task: name, epoch } = (await s.fake.commit()).message;
  const aborted = { code: "kafka_unreachable", message: "no" };
  s.fake.send({ type: "aborted", re: id, task: name, epoch, ...aborted });
  s.fake.lose(task, "aborted");
  task = await s.open("words");
  s.records(task, "words", ...pairs("a"));
  assert.deepEqual(rowsOf(await s.commit()), { lists: [["k", '["a"]']] });
});

test("tasks interleave, and each has one handler", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker);
  const [one, two] = [await s.open("words", 0), await s.open("words", 1)];
  s.records(one, "words", ...pairs("wait"));
  await it.inside.opened;
  s.records(one, "words", ...pairs("later"));
  s.records(two, "words", ...pairs("now"));
  const commit = await s.commit();
  assert.equal(commit.message.task, "words/1");
  assert.deepEqual(it.calls, ["wait", "now"]);
  it.go.open();
  assert.equal((await s.commit()).message.task, "words/0");
  assert.deepEqual(positionsOf(await s.commit()), { words: 2 });
  assert.deepEqual(it.calls, ["wait", "now", "later"]);
});

test("revoke in a batch of each() commits the records that are done", async (t) => {
  const it = new App();
  const [s, task] = await held(t, it, ["a", "wait", "c"]);
  s.fake.revoke(task);
  await s.fake.expectNothing();
  it.go.open();
  while (positionsOf(await s.commit()).words !== 2) {
    // the first record may be in a commit of its own
  }
  await s.fake.expect("released");
  assert.deepEqual(it.calls, ["a", "wait"]);
});

test("revoke in a batch of process() finishes it", async (t) => {
  const it = new App({ batches: true });
  const [s, task] = await held(t, it, ["a", "wait", "c"]);
  s.fake.revoke(task);
  it.go.open();
  assert.deepEqual(positionsOf(await s.commit()), { words: 3 });
  await s.fake.expect("released");
});

test("a task whose last commit is aborted is released", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker);
  const task = await s.open("words");
  s.records(task, "words", ...pairs("a"));
  const { id, task: name, epoch } = (await s.fake.commit()).message;
  s.fake.revoke(task);
  await s.fake.expectNothing();
  const aborted = { code: "kafka_unreachable", message: "no" };
  s.fake.send({ type: "aborted", re: id, task: name, epoch, ...aborted });
  await s.fake.expect("released");
});

test("lost in a handler drops its work, and the next epoch waits for it", async (t) => {
  const it = new App();
  const [s, task] = await held(t, it);
  s.fake.lose(task);
  const again = await s.open("words");
  s.records(again, "words", ...pairs("b"));
  await s.fake.expectNothing();
  assert.deepEqual(it.calls, ["wait"]);
  it.go.open();
  assert.deepEqual(rowsOf(await s.commit()), { lists: [["k", '["b"]']] });
});

test("every() runs once per task, and commits", async (t) => {
  const it = new App();
  it.worker.every({ minutes: 1, tables: [it.lists] }, (ctx) => {
    ctx.table(it.lists).get("ticks").push(String(ctx.partition));
  });
  const s = await staged(t, it.worker);
  await s.open("words", 0);
  await s.open("words", 1);
  await until(() => s.clock.size === 2);
  s.pass(60_000);
  const commits = [await s.commit(), await s.commit()];
  const found = new Map(commits.map((commit) => [commit.message.task, rowsOf(commit).lists]));
  assert.deepEqual(found.get("words/0"), [["ticks", '["0"]']]);
  assert.deepEqual(found.get("words/1"), [["ticks", '["1"]']]);
  assert.deepEqual(commits.map(positionsOf), [{ words: 0 }, { words: 0 }]);
  await until(() => s.clock.size === 2);
  s.pass(3_600_000); // late: once, not sixty times
  const late = (commit: FakeCommit) => rowsOf(commit).lists?.[0]?.[1];
  assert.deepEqual(
    new Set([late(await s.commit()), late(await s.commit())]),
    new Set(['["0","0"]', '["1","1"]']),
  );
  await s.fake.expectNothing();
});

test("a reset waits for the handler", async (t) => {
  const it = new App({ names: true });
  const s = await staged(t, it.worker);
  const task = await whole(s);
  s.records(task, "words", ...pairs("wait", "b"));
  await it.inside.opened;
  s.fake.reset(task, "names");
  await s.fake.expectNothing();
  assert.ok(it.names !== null);
  const names = it.worker.local(it.names);
  assert.equal(names.get("k"), "old");
  it.go.open();
  await s.commit();
  await s.fake.expect("opened");
  assert.equal(names.get("k"), undefined);
});

class Failing extends MemoryStore {
  /** Fails once when it is told to. */
  failing = false;

  override get(key: string): Buffer | null {
    if (this.failing) {
      this.failing = false;
      throw new StoreError("the disk is gone");
    }
    return super.get(key);
  }
}

test("a store that fails in a handler is opened anew", async (t) => {
  const it = new App();
  const store = new Failing();
  const stores: Stores = { open: (): Store => store };
  const s = await staged(t, it.worker, { stores });
  let task = await s.open("words");
  store.failing = true;
  s.records(task, "words", ...pairs("a", "b"));
  const error = await s.fake.expect("error");
  assert.deepEqual([error.task, error.message], ["words/0", "the disk is gone"]);
  s.fake.lose(task, "store_open_failed");
  task = await s.open("words");
  s.records(task, "words", ...pairs("a", "b"));
  assert.deepEqual(rowsOf(await s.commit()), { lists: [["k", '["a","b"]']] });
});

test("a commit stays below what the sidecar takes", async (t) => {
  const it = new App();
  const s = await staged(t, it.worker, { commitIntervalMs: 60_000, limits: LIMITS });
  const task = await s.open("words");
  const keys = Array.from({ length: 20 }, (_, i) => String(i));
  s.records(task, "words", ...keys.map((key) => pair(key, "x".repeat(1000))));
  const seen: string[] = [];
  while (seen.length < 18) {
    const commit = await s.commit();
    const size = commit.frames.reduce((sum, { data }) => sum + data.length, 0);
    assert.ok(size <= 4096, `${size} bytes`);
    seen.push(...(rowsOf(commit).lists ?? []).map(([key]) => key));
  }
  assert.deepEqual(seen, keys.slice(0, seen.length));
});
