/** One table: the overlay over its store. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryStore, SqliteStore } from "../../src/stores/index.js";
import { TableView } from "../../src/tables.js";
import { commitOf, textRows } from "../../src/testing/store-conformance.js";
import { directory } from "../stores/scratch.js";

const rows = commitOf;

test("a scan of an ordered store is in order, with all layers over it", (t) => {
  const store = new SqliteStore(`${directory(t)}/f`, "t");
  t.after(() => store.close());
  store.applyCommit(rows({ b: "1", d: "1", f: "1", h: "1" }), "v1:1");
  const view = new TableView("t", store, true);
  view.writeAll(rows({ a: "2", d: "2", f: null }));
  const layer = view.beginCommit();
  view.writeAll(rows({ d: "3", z: "3", a: null, c: null }));
  const over = rows({ e: "4", h: null, d: "4" });
  assert.deepEqual(textRows(view.scan()), [
    ["b", "1"],
    ["d", "3"],
    ["h", "1"],
    ["z", "3"],
  ]);
  assert.deepEqual(textRows(view.scan(over)), [
    ["b", "1"],
    ["d", "4"],
    ["e", "4"],
    ["z", "3"],
  ]);
  assert.deepEqual(
    ["a", "b", "c", "d", "f"].map((key) => view.find(key)?.toString() ?? null),
    [null, "1", null, "3", null],
  );
  view.endCommit(layer, "v1:2");
  assert.deepEqual(textRows(store.items()), [
    ["a", "2"],
    ["b", "1"],
    ["d", "2"],
    ["h", "1"],
  ]);
});

test("a scan of an unordered store gives each row once", () => {
  const store = new MemoryStore();
  store.applyCommit(rows({ b: "1", d: "1", f: "1" }), "v1:1");
  const view = new TableView("t", store, true);
  assert.deepEqual(textRows(view.scan()).sort(), [
    ["b", "1"],
    ["d", "1"],
    ["f", "1"],
  ]);
  view.writeAll(rows({ a: "2", d: "2", f: null }));
  assert.deepEqual(textRows(view.scan()).sort(), [
    ["a", "2"],
    ["b", "1"],
    ["d", "2"],
  ]);
});

test("a layer that was not sent comes back under what was written since", () => {
  const view = new TableView("t", new MemoryStore(), true);
  view.writeAll(rows({ a: "1", b: "1" }));
  const layer = view.beginCommit();
  view.writeAll(rows({ b: "2" }));
  view.endCommit(layer, null);
  assert.deepEqual(textRows(view.beginCommit() as Map<string, Buffer>), [
    ["a", "1"],
    ["b", "2"],
  ]);
});

test("a table takes bytes, all of them or none", () => {
  const view = new TableView("t", new MemoryStore(), true);
  const value = Buffer.from("1");
  for (const key of [null, 7, "ü€", Buffer.from("a")]) {
    assert.throws(() => view.write(key as string, value), /takes bytes as latin1 text as keys/);
    const many = new Map([
      ["a", value],
      [key as string, value],
    ]);
    assert.throws(() => view.writeAll(many), /takes bytes as latin1 text as keys/);
  }
  for (const wrong of ["1", undefined, new Uint8Array(1)]) {
    assert.throws(() => view.write("a", wrong as Buffer), /takes a Buffer or null as value/);
  }
  assert.deepEqual([...view.scan()], []);
  view.write("ÿ\0", value);
  assert.deepEqual([...view.scan()], [["ÿ\0", value]]);
});
