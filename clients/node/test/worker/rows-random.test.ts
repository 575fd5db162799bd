/** Whatever is done in whatever units, rows and bytes are those of a Map. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { int, type Serde, str } from "../../src/serdes/index.js";
import { Table } from "../../src/worker/declared.js";
import { Rows } from "../../src/worker/rows.js";
import { Random } from "../random.js";
import { all, numbers, unit, view } from "./tables.js";

interface Both<V> {
  readonly rows: Rows<string, V>;
  model: Map<string, V>;
}

/** How values of a kind are made, and changed in a Map or in what is like one. */
interface Kind<V> {
  readonly serde: Serde<V>;
  make(n: number): V;
  change(map: Like<V>, key: string, n: number): void;
}

interface Like<V> {
  get(key: string): V | undefined;
  set(key: string, value: V): unknown;
}

const lists: Kind<number[]> = {
  serde: numbers,
  make: (n) => [n],
  change: (map, key, n) => {
    map.get(key)?.push(n);
  },
};

const counts: Kind<number> = {
  serde: int(),
  make: (n) => n,
  change: (map, key, n) => {
    const found = map.get(key);
    if (found !== undefined) {
      map.set(key, found + n);
    }
  },
};

/** Do the same to both. */
function step<V>(random: Random, { rows, model }: Both<V>, { make, change }: Kind<V>): string {
  const key = random.pick(["a", "b", "c"]);
  const n = random.below(4);
  const what = random.pick(["set", "change", "delete", "has", "read", "clear", "walk"]);
  switch (what) {
    case "set":
      rows.set(key, make(n));
      model.set(key, make(n));
      break;
    case "change":
      change(rows, key, n);
      change(model, key, n);
      break;
    case "delete":
      assert.equal(rows.delete(key), model.delete(key));
      break;
    case "has":
      assert.equal(rows.has(key), model.has(key));
      break;
    case "read":
      assert.equal(rows.get(key), rows.get(key));
      break;
    case "walk":
      for (const [each] of rows) {
        change(rows, each, n);
      }
      for (const [each] of model) {
        change(model, each, n);
      }
      break;
    default:
      if (n === 0) {
        rows.clear();
        model.clear();
      }
  }
  return `${what} ${key} ${n}`;
}

function play<V>(kind: Kind<V>, seed: number): void {
  const random = new Random(seed);
  const under = view();
  const both: Both<V> = {
    rows: new Rows(new Table("t", str(), kind.serde), under),
    model: new Map(),
  };
  let kept = structuredClone(both.model);
  const done = [`seed ${seed}`];
  for (let i = 0; i < 30; i++) {
    const end = random.below(6);
    if (end === 0) {
      done.push("keep");
      unit(both.rows);
      kept = structuredClone(both.model);
    } else if (end === 1) {
      done.push("undo");
      both.rows.undo();
      both.model = structuredClone(kept);
    } else {
      done.push(step(random, both, kind));
    }
    if (random.below(2) === 0) {
      // Not always: looking settles what was changed in place.
      assert.deepEqual(all(both.rows), both.model, done.join("; "));
      assert.equal(both.rows.size, both.model.size);
    }
  }
  unit(both.rows);
  const stored = Array.from(under.scan(), ([key, data]): [string, V] => [
    key,
    kind.serde.decode(data),
  ]);
  assert.deepEqual(new Map(stored), both.model, done.join("; "));
}

test("lists, which are changed in place", () => {
  for (let seed = 0; seed < 300; seed++) {
    play(lists, seed);
  }
});

test("numbers, which are kept decoded from unit to unit", () => {
  for (let seed = 0; seed < 300; seed++) {
    play(counts, seed);
  }
});
