/** Which keys are one row. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { bigint, bytes, canonical, float, int, type Serde, t } from "../../src/serdes/index.js";
import { Table } from "../../src/worker/declared.js";
import { Rows } from "../../src/worker/rows.js";
import { all, long, rowsOf, unit, view } from "./tables.js";

test("keys that have the same bytes are one row, whatever they are to a Map", () => {
  const lower: Serde<string> = {
    encode: (value) => Buffer.from(value.toLowerCase()),
    decode: String,
  };
  const at = canonical(t.object({ x: t.int }));
  const folded = new Rows(new Table("t", lower, int()), view());
  folded.set("A", 1).set("a", 2);
  assert.deepEqual([folded.get("A"), unit(folded)], [2, { a: long(2) }]);
  const objects = new Rows(new Table("t", at, int()), view());
  objects.set({ x: 1 }, 1).set({ x: 1 }, 2);
  assert.deepEqual([objects.get({ x: 1 }), unit(objects)], [2, { '{"x":1}': long(2) }]);
  const views = new Rows(new Table("t", bytes(), int()), view());
  views.set(Buffer.from("a"), 1).set(new Uint8Array([97]), 2);
  assert.deepEqual([views.get(Buffer.from("a")), unit(views)], [2, { a: long(2) }]);
});

test("keys that have other bytes are other rows", () => {
  const floats = new Rows(new Table("t", float(), int()), view());
  floats.set(0, 1).set(-0, 2);
  assert.deepEqual([floats.get(0), floats.get(-0), floats.size], [1, 2, 2]);
  const ints = new Rows(new Table("t", int(), int()), view());
  ints
    .set(0, 1)
    .set(-0, 2)
    .set(-1, 3)
    .set(2 ** 53 - 1, 4);
  assert.deepEqual(
    all(ints),
    new Map([
      [0, 2],
      [2 ** 53 - 1, 4],
      [-1, 3],
    ]),
  );
  assert.deepEqual(Object.keys(unit(ints)).sort(), [0, 2 ** 53 - 1, -1].map(long));
  const bigints = new Rows(new Table("t", bigint(), int()), view());
  bigints.set(5n, 1).set(-(2n ** 63n), 2);
  assert.deepEqual([bigints.get(5n), bigints.get(-(2n ** 63n)), bigints.size], [1, 2, 2]);
});

test("keys of any text, short and long", () => {
  const rows = rowsOf(int());
  const keys = ["", "a", "\x7f", "\x80", "é", "😀", "a".repeat(200), `${"a".repeat(70)}é`];
  keys.forEach((key, i) => {
    rows.set(key, i);
  });
  const written = Object.keys(unit(rows)).sort();
  assert.deepEqual(written, keys.map((key) => Buffer.from(key).toString("latin1")).sort());
  assert.deepEqual(all(rows), new Map(keys.map((key, i) => [key, i])));
  assert.deepEqual(
    keys.map((key) => rows.get(key)),
    keys.map((_, i) => i),
  );
});
