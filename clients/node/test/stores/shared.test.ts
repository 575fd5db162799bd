/** What stores that live in files have in common: owners, copies, names, random use. */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { StoreBusy } from "../../src/errors.js";
import { safeName } from "../../src/stores/files.js";
import { type SqliteStore, SqliteStores } from "../../src/stores/index.js";
import {
  commitOf,
  conformanceTask,
  restoreBatch,
  type TextRow,
  textRows,
} from "../../src/testing/store-conformance.js";
import { Random } from "../random.js";
import { directory } from "./scratch.js";

const TASK = conformanceTask("s");

test("workers share a directory", (t) => {
  // An active and a copy of its table: each has its own; the newest free one is found again.
  const stores = new SqliteStores(directory(t), { openWithinMs: 20 });
  const active = stores.open(TASK, "t");
  const copy = stores.open(TASK, "t");
  assert.deepEqual([active.path, copy.path], [stores.path(TASK, "t"), stores.path(TASK, "t", 2)]);
  active.applyCommit(commitOf({ k: "old" }), "v1:old");
  active.close();
  copy.applyCommit(commitOf({ k: "new" }), "v1:new");
  copy.close();
  fs.utimesSync(active.path, 1, 1);
  const again = stores.open(TASK, "t");
  assert.deepEqual([again.path, again.checkpoint()], [copy.path, "v1:new"]);
  const other = stores.open(TASK, "t");
  assert.deepEqual([other.path, other.checkpoint()], [active.path, "v1:old"]);
  again.close();
  other.close();
});

test("a standby does not wait for the active's file", (t) => {
  const asked: [string, number][] = [];
  const root = directory(t);
  class Watched extends SqliteStores {
    protected override openFile(path: string, identity: string, withinMs: number): SqliteStore {
      asked.push([path.slice(root.length + 3), withinMs]);
      return super.openFile(path, identity, withinMs);
    }
  }
  const stores = new Watched(root, { openWithinMs: 20 });
  const taken = [stores.open(TASK, "t")];
  taken.push(stores.open(conformanceTask("s", "t", 0, "standby"), "t"));
  taken.push(stores.open(TASK, "t"));
  assert.deepEqual(asked, [
    ["t.0.sqlite", 0],
    ["t.0.sqlite", 0],
    ["t.0.copy-2.sqlite", 0],
    ["t.0.copy-2.sqlite", 0],
    ["t.0.sqlite", 0],
    ["t.0.copy-2.sqlite", 20],
    ["t.0.copy-3.sqlite", 0],
  ]);
  for (const store of taken) {
    store.close();
  }
});

test("a directory that all have is busy", (t) => {
  const stores = new SqliteStores(directory(t), { openWithinMs: 0 });
  const taken = Array.from({ length: 16 }, () => stores.open(TASK, "t"));
  assert.equal(new Set(taken.map((store) => store.path)).size, 16);
  assert.throws(() => stores.open(TASK, "t"), StoreBusy);
  for (const store of taken) {
    store.close();
  }
});

test("a closed store says so", (t) => {
  const store = new SqliteStores(directory(t)).open(TASK, "t");
  const rows = Array.from({ length: 100 }, (_, i) => [`${i}`, Buffer.from("v")] as const);
  store.applyCommit(new Map(rows), "v1:1");
  const walk = store.items();
  walk.next();
  store.close();
  const uses = [
    () => store.get("1"),
    () => [...walk],
    () => store.size,
    () => store.applyCommit(commitOf({ a: "" }), "v1:2"),
    () => store.wipe(),
  ];
  for (const use of uses) {
    assert.throws(use, { name: "StoreError", message: /is closed/ });
  }
});

/** A short text of any bytes. */
function text(random: Random, longest: number): string {
  const codes = Array.from({ length: random.below(longest + 1) }, () =>
    random.pick([0, 1, 97, 98, 254, 255]),
  );
  return String.fromCharCode(...codes);
}

/** Use a store and a Map alike, and compare them after each step. */
function play(stores: SqliteStores, random: Random): void {
  const model = new Map<string, string>();
  let checkpoint: string | null = null;
  let store = stores.open(TASK, "t");
  for (let n = 0; n < 12; n++) {
    const step = random.pick(["apply", "apply", "commit", "commit", "wipe", "reopen", "flush"]);
    const rows: TextRow[] = [];
    if (step === "apply" || step === "commit") {
      checkpoint = `v1:${n}`;
      for (let i = random.below(7); i > 0; i--) {
        rows.push([text(random, 2), random.below(3) === 0 ? null : text(random, 3)]);
      }
    }
    if (step === "apply") {
      store.apply(restoreBatch(rows, `v1:${n}`));
    } else if (step === "commit") {
      store.applyCommit(commitOf(Object.fromEntries(rows)), `v1:${n}`);
    } else if (step === "wipe") {
      checkpoint = null;
      model.clear();
      store.wipe();
    } else if (step === "flush") {
      store.flush();
    } else {
      store.close();
      store = stores.open(TASK, "t");
    }
    for (const [key, value] of rows) {
      if (value === null) {
        model.delete(key ?? "");
      } else {
        model.set(key ?? "", value);
      }
    }
    assert.equal(store.checkpoint(), checkpoint);
    for (const [key] of rows) {
      assert.equal(store.get(key ?? "")?.toString("latin1"), model.get(key ?? ""));
    }
  }
  const [start, stop] = [text(random, 2), random.below(3) === 0 ? undefined : text(random, 2)];
  const wanted = [...model].sort(([a], [b]) => (a < b ? -1 : 1));
  assert.equal(store.size, model.size);
  assert.deepEqual(textRows(store.items()), wanted);
  assert.deepEqual(
    textRows(store.items(start, stop)),
    wanted.filter(([key]) => key >= start && (stop === undefined || key < stop)),
  );
  store.close();
}

test("a store is a sorted map", (t) => {
  const root = directory(t);
  for (let seed = 1; seed <= 40; seed++) {
    try {
      play(new SqliteStores(join(root, `${seed}`)), new Random(seed));
    } catch (error) {
      throw new Error(`seed ${seed}`, { cause: error });
    }
  }
});

for (const [name, safe] of [
  ["plane_stats-1", "plane_stats-1"],
  ["a.b", "a.b"],
  [".", "%2E"],
  ["..", "%2E."],
  ["", "%"],
  ["a/b", "a%2Fb"],
  ["ä", "%C3%A4"],
  ["%", "%25"],
  ["a\0", "a%00"],
  ["..\\x", "%2E.%5Cx"],
] as const) {
  test(`the file name of ${JSON.stringify(name)}`, () => {
    assert.equal(safeName(name), safe);
  });
}

test("file names of long names differ", () => {
  const names = Array.from({ length: 10 }, (_, i) => safeName("x".repeat(300) + i));
  assert.equal(new Set(names).size, 10);
  assert.ok(names.every((name) => name.length <= 120));
});
