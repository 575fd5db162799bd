/** What SQLite must survive. */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import Database from "better-sqlite3";
import { StoreBusy, StoreCorrupt, StoreError, UsageError } from "../../src/errors.js";
import { SqliteStore, SqliteStores } from "../../src/stores/index.js";
import { commitOf, conformanceTask, restoreBatch } from "../../src/testing/store-conformance.js";
import { directory, watchStatements } from "./scratch.js";

const TASK = conformanceTask("s");

/** A store opener and what it says to people. */
function place(root: string): { stores: SqliteStores; path: string; said: string[] } {
  const said: string[] = [];
  const stores = new SqliteStores(root, { notice: (sentence) => said.push(sentence) });
  const path = stores.path(TASK, "t");
  return { stores, path, said };
}

test("a damaged file is set aside", (t) => {
  const { stores, path, said } = place(directory(t));
  const content = "not a database, but long enough to have a header".repeat(40);
  fs.mkdirSync(dirname(path), { recursive: true });
  fs.writeFileSync(path, content);
  const store = stores.open(TASK, "t");
  assert.equal(store.checkpoint(), null);
  store.close();
  assert.equal(fs.readFileSync(`${path}.bad-1`, "utf8"), content);
  assert.deepEqual(said, [
    `the store ${path} is damaged (file is not a database); it is kept as t.0.sqlite.bad-1, ` +
      "and the table is restored from Kafka (store_open_failed)",
  ]);
});

test("a foreign database is set aside", (t) => {
  const { stores, path, said } = place(directory(t));
  fs.mkdirSync(dirname(path), { recursive: true });
  new Database(path).exec("CREATE TABLE precious (x)").close();
  stores.open(TASK, "t").close();
  assert.match(said.join(), /is not a table of this client/);
  const kept = new Database(`${path}.bad-1`);
  assert.equal(kept.prepare("SELECT count(*) FROM precious").pluck().get(), 0);
  kept.close();
});

test("rows of another topic are set aside, and a second time beside the first", (t) => {
  const root = directory(t);
  const said: string[] = [];
  const open = (identity: string) =>
    new SqliteStore(join(root, "f"), identity, { notice: (sentence) => said.push(sentence) });
  for (const identity of ["t one/0", "t two/0", "t one/0"]) {
    const store = open(identity);
    assert.deepEqual([store.size, store.checkpoint()], [0, null]);
    store.applyCommit(commitOf({ a: "1" }), "v1:1");
    store.close();
  }
  assert.equal(said.length, 2);
  assert.match(
    said[0] ?? "",
    /holds 't one\/0', not 't two\/0' \(each group needs its own directory\); it is kept as f\.bad-1/,
  );
  assert.match(said[1] ?? "", /it is kept as f\.bad-2/);
});

test("a format of a later version is set aside", (t) => {
  const { stores, path, said } = place(directory(t));
  stores.open(TASK, "t").close();
  const db = new Database(path);
  db.pragma("user_version = 2");
  db.close();
  stores.open(TASK, "t").close();
  assert.match(said.join(), /has a format that this version does not read/);
});

test("damage that shows later is set aside", (t) => {
  const path = join(directory(t), "f");
  const said: string[] = [];
  const open = () => new SqliteStore(path, "t", { notice: (sentence) => said.push(sentence) });
  const store = open();
  const rows = Array.from({ length: 500 }, (_, i) => [`${i}`, Buffer.alloc(500)] as const);
  store.applyCommit(new Map(rows), "v1:1");
  store.close();
  const file = fs.openSync(path, "r+");
  fs.writeSync(file, Buffer.alloc(100_000, 0xa5), 0, 100_000, 16384);
  fs.closeSync(file);
  const damaged = open();
  assert.throws(() => [...damaged.items()], { name: "StoreCorrupt", message: /kept as f\.bad-1/ });
  assert.throws(() => damaged.get("1"), { name: "StoreError", message: /is closed/ });
  damaged.close();
  const again = open();
  assert.deepEqual([again.size, again.checkpoint()], [0, null]);
  again.close();
  assert.match(said.join(), /is damaged/);
});

test("a table has one owner", (t) => {
  const path = join(directory(t), "f");
  const store = new SqliteStore(path, "t");
  assert.throws(
    () => new SqliteStore(path, "t", { withinMs: 20 }),
    (error) =>
      error instanceof StoreBusy &&
      /another process has it open/.test(error.message) &&
      error.code === "store_open_failed" &&
      error.retriable,
  );
  store.close();
  new SqliteStore(path, "t").close();
});

test("a directory that cannot be made", (t) => {
  const file = join(directory(t), "file");
  fs.writeFileSync(file, "");
  const stores = new SqliteStores(file);
  assert.throws(() => stores.open(TASK, "t"), { name: "StoreError", message: /cannot be made/ });
});

test("a file that cannot be opened", (t) => {
  const { stores, path } = place(directory(t));
  fs.mkdirSync(path, { recursive: true }); // a directory in its place
  assert.throws(
    () => stores.open(TASK, "t"),
    (error) =>
      error instanceof StoreError &&
      !(error instanceof StoreCorrupt) &&
      /cannot be opened/.test(error.message),
  );
});

test("gathered rows are written when there are many", (t) => {
  const path = join(directory(t), "f");
  const store = new SqliteStore(path, "t", { now: () => 0 });
  for (let i = 0; i < 140; i++) {
    const rows = Array.from({ length: 1000 }, (_, n) => [`${i} ${n}`, "v"] as const);
    store.apply(restoreBatch(rows, `v1:${i}`));
  }
  const written = fs.statSync(path).size + fs.statSync(`${path}-wal`).size;
  assert.ok(written > 131_000 * "1 1v".length);
  assert.equal(store.size, 140_000);
  store.close();
});

test("gathered rows are written when they are large", (t) => {
  const path = join(directory(t), "f");
  const store = new SqliteStore(path, "t", { now: () => 0 });
  const value = "v".repeat(1 << 20);
  for (let i = 0; i < 33; i++) {
    store.apply(restoreBatch([[`${i}`, value]], `v1:${i}`));
  }
  assert.ok(fs.statSync(path).size + fs.statSync(`${path}-wal`).size > 31 << 20);
  store.close();
});

test("a slow write does not end the gathering", (t) => {
  const written: unknown[] = [];
  let now = 0;
  const store = new SqliteStore(join(directory(t), "f"), "t", { now: () => now });
  const stop = watchStatements((sql, [name, value], when) => {
    if (/meta/.test(sql) && name === "checkpoint" && when === "after") {
      now += 5000; // a flush of a large table takes longer than the time that rows are gathered for
      written.push(value);
    }
  });
  t.after(stop);
  for (let n = 0; n < 10; n++) {
    now += 300;
    store.apply(restoreBatch([[`${n}`, "v"]], `v1:${n}`));
  }
  assert.deepEqual(written, ["v1:3", "v1:7"]);
  store.close();
});

test("what fails in the middle of a write is undone and tried again", (t) => {
  const path = join(directory(t), "f");
  const store = new SqliteStore(path, "t");
  store.applyCommit(commitOf({ a: "1", b: "1" }), "v1:1");
  const stop = watchStatements((sql) => {
    if (/^DELETE/.test(sql)) {
      throw Object.assign(new Error("disk I/O error"), { code: "SQLITE_IOERR_WRITE" });
    }
  });
  t.after(stop);
  assert.throws(() => store.applyCommit(commitOf({ a: "2", b: null }), "v1:2"), {
    name: "StoreError",
    message: `the store ${path} fails: disk I/O error (store_open_failed)`,
  });
  assert.deepEqual([store.get("a")?.toString(), store.get("b")], ["2", null]);
  assert.throws(() => store.close(), /disk I\/O error/);
  stop();
  const again = new SqliteStore(path, "t");
  assert.deepEqual([again.get("a")?.toString(), again.checkpoint()], ["1", "v1:1"]);
  again.close();
});

test("values and checkpoints keep the guarantees of the file's settings", (t) => {
  const path = join(directory(t), "f");
  const store = new SqliteStore(path, "t");
  store.applyCommit(commitOf({ a: "1" }), "v1:1");
  assert.ok(fs.existsSync(`${path}-wal`) && !fs.existsSync(`${path}-shm`));
  store.close();
  assert.ok(!fs.existsSync(`${path}-wal`));
  const db = new Database(path);
  assert.equal(db.pragma("journal_mode", { simple: true }), "wal");
  assert.equal(db.pragma("page_size", { simple: true }), 8192);
  db.close();
});

test("without the package it says how to get it", async (t) => {
  const root = directory(t); // a copy from which the package is not found
  fs.cpSync(new URL("../../src", import.meta.url), join(root, "src"), { recursive: true });
  fs.writeFileSync(join(root, "package.json"), '{"type": "module"}');
  const alone = await import(pathToFileURL(join(root, "src/stores/index.js")).href);
  assert.throws(() => new alone.SqliteStores(root), {
    name: "UsageError",
    message:
      "SqliteStores needs the package better-sqlite3; run npm install better-sqlite3, " +
      "or keep tables in memory: leave stateDir out, or use new MemoryStores() (usage)",
  });
  const broken = join(root, "node_modules/better-sqlite3");
  fs.mkdirSync(broken, { recursive: true });
  fs.writeFileSync(
    join(broken, "index.js"),
    'module.exports = class { constructor() { throw new Error("no bindings\\nfound"); } };',
  );
  assert.throws(() => new alone.SqliteStores(root), {
    name: UsageError.name,
    message:
      "the package better-sqlite3 cannot be loaded (no bindings); run npm rebuild " +
      "better-sqlite3, or keep tables in memory: leave stateDir out, or use new MemoryStores() (usage)",
  });
});
