/** What every store must do, as one function that a third party's test calls. */

import assert from "node:assert/strict";
import { Batch } from "../batch.js";
import { FrameKind } from "../codes.js";
import { encode } from "../encode.js";
import { parse } from "../frames.js";
import type { KeyText, Store, Stores } from "../stores/base.js";
import type { Task } from "../tasks.js";

/** A row to restore, as text of one character for each byte; null as value is a tombstone. */
export type TextRow = readonly [key: KeyText | null, value: string | null];

export interface ConformanceOptions {
  /** Whether another opener finds what an earlier one wrote, as after a restart. True unless said. */
  readonly durable?: boolean;
}

/**
 * Check a store. Throws an AssertionError that names the broken promise.
 *
 * stores makes a new opener each time it is called, over the same place; the first opens find
 * nothing there.
 */
export function storeConformance(
  stores: () => Stores,
  { durable = true }: ConformanceOptions = {},
): void {
  for (const check of CHECKS) {
    check(stores());
  }
  reopen(stores, durable);
}

/** Make a task with one changelog table. */
export function conformanceTask(
  set: string,
  table = "t",
  partition = 0,
  role: Task["role"] = "active",
): Task {
  const stream = {
    name: table,
    topic: `${set}-${table}-changelog`,
    kind: "changelog",
    stream: 1,
  } as const;
  return {
    name: `${set}/${partition}`,
    set,
    partition,
    role,
    epoch: 1,
    tables: new Map([[table, stream]]),
    sources: new Map(),
    outputs: new Map(),
  };
}

/** Make a batch of a table's rows. */
export function restoreBatch(rows: readonly TextRow[], checkpoint = ""): Batch {
  const data = encode({
    kind: FrameKind.Restore,
    stream: 1,
    epoch: 1,
    base: 0,
    next: rows.length,
    keys: rows.map(([key]) => bytes(key)),
    values: rows.map(([, value]) => bytes(value)),
    checkpoint,
  });
  return new Batch(parse(data), conformanceTask("s"), "topic", "t");
}

/** Make the rows of a commit. */
export function commitOf(
  rows: Readonly<Record<string, string | null>>,
): Map<string, Buffer | null> {
  return new Map(Object.entries(rows).map(([key, value]) => [key, bytes(value)]));
}

function bytes(text: string): Buffer;
function bytes(text: string | null): Buffer | null;
function bytes(text: string | null): Buffer | null {
  return text === null ? null : Buffer.from(text, "latin1");
}

/** What items() gives, as text. */
export function textRows(rows: Iterable<[KeyText, Buffer]>): [KeyText, string][] {
  return Array.from(rows, ([key, value]) => [key, value.toString("latin1")]);
}

function open(stores: Stores, set: string, table = "t", partition = 0): Store {
  return stores.open(conformanceTask(set, table, partition), table);
}

function holds(
  store: Store,
  rows: Readonly<Record<string, string>> | ReadonlyMap<string, string>,
  checkpoint: string | null,
  what: string,
): void {
  const wanted = new Map(rows instanceof Map ? rows : Object.entries(rows));
  const found = textRows(store.items());
  assert.deepEqual(new Map(found), wanted, `${what}: items()`);
  assert.equal(found.length, wanted.size, `${what}: items() gives each row once`);
  assert.equal(store.size, wanted.size, `${what}: size`);
  assert.equal(store.checkpoint(), checkpoint, `${what}: checkpoint()`);
  for (const [key, value] of wanted) {
    const text = JSON.stringify(key);
    assert.equal(store.get(key)?.toString("latin1"), value, `${what}: get(${text})`);
  }
}

function empty(stores: Stores): void {
  const store = open(stores, "empty");
  holds(store, {}, null, "a new store is empty and has no checkpoint");
  assert.equal(store.get("k"), null, "a missing key is null");
  store.apply(restoreBatch([], "v1:9"));
  holds(store, {}, "v1:9", "a batch without records moves the checkpoint");
  store.close();
  store.close();
}

function rows(stores: Stores): void {
  const store = open(stores, "rows");
  const batch = [
    ["a", "1"],
    ["b", "2"],
  ] as const;
  store.apply(restoreBatch(batch, "v1:2"));
  holds(store, { a: "1", b: "2" }, "v1:2", "a batch sets rows and checkpoint");
  store.apply(restoreBatch([["c", "3"]]));
  const after = { a: "1", b: "2", c: "3" };
  holds(store, after, "v1:2", "a batch without a checkpoint keeps the one before");
  store.close();
}

function order(stores: Stores): void {
  const store = open(stores, "order");
  store.apply(
    restoreBatch(
      [
        ["a", "1"],
        ["a", "2"],
        ["a", "3"],
      ],
      "v1:3",
    ),
  );
  holds(store, { a: "3" }, "v1:3", "the last record of a key wins");
  store.apply(
    restoreBatch(
      [
        ["a", null],
        ["a", "4"],
        ["b", "1"],
        ["b", null],
      ],
      "v1:7",
    ),
  );
  holds(store, { a: "4" }, "v1:7", "a tombstone counts in its place in the batch");
  store.close();
}

function nulls(stores: Stores): void {
  const store = open(stores, "nulls");
  store.apply(
    restoreBatch(
      [
        ["", ""],
        [null, "x"],
        ["n", null],
        [null, null],
      ],
      "v1:4",
    ),
  );
  holds(store, { "": "" }, "v1:4", "empty is not null, and null keys are passed over");
  store.apply(restoreBatch([["", null]], "v1:5"));
  holds(store, {}, "v1:5", "a tombstone removes the empty key");
  store.close();
}

function commit(stores: Stores): void {
  const store = open(stores, "commit");
  store.apply(
    restoreBatch(
      [
        ["a", "1"],
        ["b", "2"],
      ],
      "v1:2",
    ),
  );
  store.applyCommit(commitOf({ a: "9", b: null, c: "" }), "v1:5");
  holds(store, { a: "9", c: "" }, "v1:5", "a commit sets, removes, and has a checkpoint");
  store.close();
}

function wipe(stores: Stores): void {
  const store = open(stores, "wipe");
  store.apply(restoreBatch([["a", "1"]], "v1:1"));
  store.wipe();
  holds(store, {}, null, "wipe leaves nothing");
  store.apply(restoreBatch([["b", "1"]], "v1:2"));
  holds(store, { b: "1" }, "v1:2", "a wiped store goes on");
  store.close();
}

function apart(stores: Stores): void {
  const opened = [
    open(stores, "apart", "t", 0),
    open(stores, "apart", "t", 1),
    open(stores, "apart", "u", 0),
    open(stores, "apart/t", "t", 0),
  ];
  opened.forEach((store, i) => {
    store.apply(restoreBatch([["k", `${i}`]], `v1:${i}`));
  });
  opened.forEach((store, i) => {
    holds(store, { k: `${i}` }, `v1:${i}`, "sets, tables and partitions are kept apart");
    store.close();
  });
}

function anyBytes(stores: Stores): void {
  const store = open(stores, "bytes ä/..\\:\0");
  const all = Array.from({ length: 256 }, (_, i) => i);
  const rows = new Map(
    all.map((i) => [String.fromCharCode(i, 255 - i), String.fromCharCode(...all.slice(0, i))]),
  );
  store.apply(restoreBatch([...rows], "v1:x"));
  holds(store, rows, "v1:x", "keys and values may be any bytes");
  store.close();
}

/** Rows that a store was given, and those that it gives, share no memory with what brought them. */
function ownMemory(stores: Stores): void {
  const store = open(stores, "memory");
  const batch = restoreBatch([["a", "1"]], "v1:1");
  store.apply(batch);
  const [before, row] = [store.get("a"), [...store.items()][0]?.[1]];
  batch.valueAt(0)?.fill("x");
  assert.equal(before?.toString(), "1", "get() gives no view of a frame");
  assert.equal(row?.toString(), "1", "items() gives no view of a frame");
  store.close();
}

function ranges(stores: Stores): void {
  const store = open(stores, "ranges");
  const keys = ["", "\0", "a", "a\0", "ab", "b", "b\xff", "\xff", "\xff\xff"];
  store.apply(
    restoreBatch(
      keys.toReversed().map((key) => [key, `v${key}`]),
      "v1:1",
    ),
  );
  const bounds = [undefined, ...keys, "aa", "c", "\xff\xff\xff"];
  for (const start of bounds) {
    for (const stop of bounds) {
      const found = textRows(store.items(start, stop));
      const within = keys
        .filter(
          (key) => (start === undefined || key >= start) && (stop === undefined || key < stop),
        )
        .map((key) => [key, `v${key}`]);
      const rows = store.ordered ? found : found.sort(([a], [b]) => (a < b ? -1 : 1));
      const given = `items(${JSON.stringify(start)}, ${JSON.stringify(stop)})`;
      const how = store.ordered ? "in order" : "in any order";
      assert.deepEqual(rows, within, `${given} gives start <= key < stop, ${how}`);
    }
  }
  store.close();
}

/** A walk while commits, restored rows and removals land between its rows. */
export function walkWhileChanging(stores: Stores): void {
  const store = open(stores, "changing");
  const name = (i: number): string => `${i}`.padStart(5, "0");
  const every = (from: number): string[] =>
    Array.from({ length: 1000 }, (_, i) => name(from + 3 * i));
  const stay = every(0);
  store.apply(
    restoreBatch(
      stay.map((key) => [key, "0"]),
      "v1:0",
    ),
  );
  store.applyCommit(new Map(every(1).map((key) => [key, bytes("0")])), "v1:1");
  const seen: string[] = [];
  for (const [key] of store.items()) {
    const n = seen.push(key) - 1;
    const near = new Map<string, string | null>();
    for (let j = Math.max(0, Number(key) - 3); j < Math.min(3000, Number(key) + 4); j++) {
      near.set(name(j), j % 3 === 1 ? null : `${n}`);
    }
    if (n % 2 === 1) {
      store.applyCommit(new Map([...near].map(([k, v]) => [k, bytes(v)])), `v1:c${n}`);
    } else {
      store.apply(restoreBatch([...near], `v1:r${n}`));
    }
    assert.ok(n < 3000, "while a store changes, items() comes to an end");
  }
  const once = new Set(seen);
  assert.equal(seen.length, once.size, "while a store changes, items() gives no row twice");
  assert.ok(
    stay.every((key) => once.has(key)),
    "while a store changes, items() misses no row that stays",
  );
  assert.ok(
    !store.ordered || seen.every((key, i) => i === 0 || (seen[i - 1] ?? "") < key),
    "while a store changes, items() keeps order",
  );
  const walk = store.items();
  walk.next();
  store.wipe();
  assert.ok([...walk].length <= seen.length, "a walk ends after wipe()");
  store.close();
}

function givenUp(stores: Stores): void {
  const store = open(stores, "given up");
  const rows = new Map(Array.from({ length: 5000 }, (_, i) => [`${i}`.padStart(5, "0"), "v"]));
  store.applyCommit(new Map([...rows].map(([key, value]) => [key, bytes(value)])), "v1:1");
  const walks = [0, 40, 80].map((taken) => {
    const walk = store.items();
    for (let i = 0; i < taken; i++) {
      assert.ok(walk.next().done === false);
    }
    return walk;
  });
  store.applyCommit(commitOf({ "00000": "w" }), "v1:2");
  store.close();
  const again = open(stores, "given up");
  rows.set("00000", "w");
  holds(again, rows, "v1:2", "a walk that was given up holds nothing");
  again.close();
  assert.equal(walks.length, 3); // they were there to the end
}

function reopen(stores: () => Stores, durable: boolean): void {
  const first = stores();
  for (const opener of [first, durable ? stores() : first]) {
    const store = open(opener, "reopen");
    store.apply(restoreBatch([["a", "1"]], "v1:1"));
    store.applyCommit(commitOf({ b: "2" }), "v1:2");
    store.close();
    const again = open(durable ? stores() : first, "reopen");
    holds(again, { a: "1", b: "2" }, "v1:2", "a store that was closed is found again");
    again.wipe();
    again.close();
  }
}

const CHECKS = [
  empty,
  rows,
  order,
  nulls,
  commit,
  wipe,
  apart,
  anyBytes,
  ownMemory,
  ranges,
  walkWhileChanging,
  givenUp,
];
