/** The stores that come with the client conform, and the checks find those that do not. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Batch } from "../../src/batch.js";
import { type KeyText, MemoryStore, MemoryStores, SqliteStores } from "../../src/stores/index.js";
import { storeConformance, walkWhileChanging } from "../../src/testing/store-conformance.js";
import { directory } from "./scratch.js";

test("memory conforms", () => {
  storeConformance(() => new MemoryStores(), { durable: false });
});

test("SQLite conforms", (t) => {
  const root = directory(t);
  storeConformance(() => new SqliteStores(root));
});

/** An opener that keeps nothing: a new store each time. */
function stores(kind: new () => MemoryStore): MemoryStores {
  return new (class extends MemoryStores {
    override open(): MemoryStore {
      return new kind();
    }
  })();
}

class LosesOrder extends MemoryStore {
  override apply(batch: Batch): void {
    super.apply(batch);
    for (let i = 0; i < batch.length; i++) {
      const [key, value] = [batch.keyTextAt(i), batch.valueCopyAt(i)];
      if (key !== null && value !== null) {
        this.rows.set(key, value);
      }
    }
  }
}

class KeepsViews extends MemoryStore {
  override apply(batch: Batch): void {
    super.apply(batch);
    for (let i = 0; i < batch.length; i++) {
      const [key, value] = [batch.keyTextAt(i), batch.valueAt(i)];
      if (key !== null && value !== null && this.rows.has(key)) {
        this.rows.set(key, value);
      }
    }
  }
}

class ForgetsCheckpoint extends MemoryStore {
  override applyCommit(rows: ReadonlyMap<KeyText, Buffer | null>): void {
    super.applyCommit(rows, "v1:2");
  }
}

for (const [kind, broken] of [
  [LosesOrder, /a tombstone counts in its place/],
  [KeepsViews, /no view of a frame/],
  [ForgetsCheckpoint, /a commit sets, removes, and has a checkpoint/],
] as const) {
  test(`conformance finds a store that ${kind.name}`, () => {
    assert.throws(() => storeConformance(() => stores(kind), { durable: false }), broken);
  });
}

type Walk = (rows: ReadonlyMap<KeyText, Buffer>) => IterableIterator<[KeyText, Buffer]>;

function sorted(rows: ReadonlyMap<KeyText, Buffer>): [KeyText, Buffer][] {
  return [...rows].sort(([a], [b]) => (a < b ? -1 : 1));
}

function* pagesThatMeet(rows: ReadonlyMap<KeyText, Buffer>): IterableIterator<[KeyText, Buffer]> {
  for (let at = 0; at < 3000; at += 100) {
    const [first, last] = [`${at}`.padStart(5, "0"), `${at + 100}`.padStart(5, "0")];
    yield* sorted(rows).filter(([key]) => key >= first && key <= last);
  }
}

function* byPosition(rows: ReadonlyMap<KeyText, Buffer>): IterableIterator<[KeyText, Buffer]> {
  for (let at = 0; at < 3000; at += 100) {
    yield* sorted(rows).slice(at, at + 100);
  }
}

function walking(walk: Walk): new () => MemoryStore {
  return class extends MemoryStore {
    override *items(): IterableIterator<[KeyText, Buffer]> {
      yield* walk(this.rows);
    }
  };
}

for (const [walk, broken] of [
  [pagesThatMeet, /no row twice/],
  [byPosition, /no row twice|misses no row/],
] as const) {
  test(`conformance finds a walk that goes wrong while rows change: ${walk.name}`, () => {
    assert.throws(() => walkWhileChanging(stores(walking(walk))), broken);
  });
}

test("conformance finds a walk over rows that come back behind it", () => {
  class Moves extends MemoryStore {
    override *items(): IterableIterator<[KeyText, Buffer]> {
      yield* this.rows; // a Map gives a row again that was removed and is set anew
    }

    override apply(batch: Batch): void {
      for (let i = 0; i < batch.length; i++) {
        this.rows.delete(batch.keyTextAt(i) ?? "");
      }
      super.apply(batch);
    }
  }
  assert.throws(() => walkWhileChanging(stores(Moves)), /comes to an end|no row twice/);
});
