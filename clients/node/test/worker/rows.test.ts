/** Typed tables: they behave like Maps, and what is changed in place is not lost. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { SerdeError, UsageError } from "../../src/errors.js";
import { bytes, int, json, type Serde, str } from "../../src/serdes/index.js";
import { MemoryStore } from "../../src/stores/memory.js";
import { TableView } from "../../src/tables.js";
import { SourceTable, Table } from "../../src/worker/declared.js";
import { ReadRows, StoreRows } from "../../src/worker/read-rows.js";
import { Rows } from "../../src/worker/rows.js";
import { all, long, numbers, rowsOf, stats, store, unit, view } from "./tables.js";

function refused(run: () => unknown, kind: typeof SerdeError | typeof UsageError, says: RegExp) {
  assert.throws(run, (error) => {
    assert.ok(error instanceof kind, String(error));
    assert.match(error.message, says);
    return true;
  });
}

test("a unit asks the store once for a key", () => {
  const asked: string[] = [];
  class Watched extends MemoryStore {
    override get(key: string): Buffer | null {
      asked.push(key);
      return super.get(key);
    }
  }
  const lists = new Table<string, number[], never>("t", str(), numbers, () => []);
  const counts = new Table<string, number, never>("t", str(), int(), () => 0);
  for (const table of [lists, counts] as Table<string, unknown, never>[]) {
    asked.length = 0;
    const rows = new Rows(table, new TableView("t", new Watched(), true));
    const value = rows.get("missing");
    assert.deepEqual(value, table.default?.());
    rows.set("missing", value);
    assert.deepEqual(rows.get("missing"), value);
    assert.equal(rows.has("missing"), true);
    assert.equal(rows.delete("missing"), true);
    assert.equal(rows.has("missing"), false);
    assert.deepEqual(asked, ["missing"]);
  }
});

test("a row that is only set is not read", () => {
  const under = view({ a: "no Long" });
  const rows = new Rows(new Table("t", str(), int()), under);
  rows.set("a", 7);
  assert.equal(rows.get("a"), 7);
  assert.deepEqual(unit(rows), { a: long(7) });
});

test("a value is encoded once, at the end of the unit, and decoded once", () => {
  const calls = { encode: 0, decode: 0 };
  const counted: Serde<number> = {
    mutable: false,
    encode(value) {
      calls.encode++;
      return int().encode(value);
    },
    decode(data) {
      calls.decode++;
      return int().decode(data);
    },
  };
  const rows = rowsOf(counted, { a: long(0) });
  for (let i = 0; i < 10; i++) {
    rows.set("a", (rows.get("a") ?? 0) + 1);
  }
  assert.deepEqual(calls, { encode: 0, decode: 1 });
  assert.deepEqual(unit(rows), { a: long(10) });
  assert.deepEqual(calls, { encode: 1, decode: 1 });
});

test("a row of a single value is found and decoded once for many units", () => {
  const asked: string[] = [];
  const under = view({ a: long(1) });
  const find = under.find.bind(under);
  under.find = (key) => {
    asked.push(key);
    return find(key);
  };
  const rows = new Rows(new Table("t", str(), int()), under);
  for (let n = 1; n < 4; n++) {
    assert.equal(rows.get("a"), n);
    rows.set("a", n + 1);
    assert.deepEqual(unit(rows), { a: long(n + 1) });
  }
  assert.deepEqual(asked, ["a"]);
  rows.set("a", 9);
  rows.undo(); // what it held may be wrong now
  assert.equal(rows.get("a"), 4);
  assert.deepEqual(asked, ["a", "a"]);
});

test("only so many rows are kept decoded", () => {
  const under = view();
  let asked = 0;
  const find = under.find.bind(under);
  under.find = (key) => {
    asked++;
    return find(key);
  };
  const rows = new Rows(new Table("t", int(), int()), under);
  for (let n = 0; n < 5000; n++) {
    rows.get(n);
  }
  rows.keep();
  rows.get(0);
  assert.equal(asked, 5001);
});

test("a row that is removed during a walk does not come back", () => {
  const rows = rowsOf(numbers, { a: "[1]", b: "[2]", c: "[3]" });
  const seen: string[] = [];
  for (const [key, value] of rows) {
    seen.push(key);
    value.push(0);
    for (const other of ["a", "b", "c"].filter((each) => each !== key)) {
      rows.delete(other);
    }
  }
  assert.equal(seen.length, 1);
  assert.deepEqual([...rows.keys()], seen);
  assert.equal(Object.keys(unit(rows)).length, 3);
  assert.deepEqual([...rows.keys()], seen);
});

test("a walk sees what was written meanwhile", () => {
  const rows = rowsOf(int(), { a: long(0), b: long(0) });
  const found: number[] = [];
  for (const [, value] of rows) {
    found.push(value);
    rows.set("a", 7).set("b", 7);
  }
  assert.deepEqual(found, [0, 7]);
});

test("a walk that outlives its unit does not give what was dropped", () => {
  const rows = rowsOf(int(), { a: long(1) });
  rows.set("b", 2);
  const walk = rows.entries();
  assert.deepEqual(walk.next().value, ["a", 1]);
  rows.undo();
  assert.equal(walk.next().done, true);
});

test("a value changed in place is written", () => {
  const rows = rowsOf(numbers, { a: "[1]" });
  rows.get("a")?.push(2);
  assert.deepEqual(rows.get("a"), [1, 2]);
  assert.deepEqual(unit(rows), { a: "[1,2]" });
  rows.get("a")?.push(3);
  assert.deepEqual(unit(rows), { a: "[1,2,3]" });
  assert.deepEqual(unit(rows), {});
});

test("a value changed after it was set is written", () => {
  const rows = rowsOf(numbers);
  const mine = [1];
  rows.set("a", mine);
  mine.push(2);
  assert.equal(rows.get("a"), mine);
  assert.deepEqual(unit(rows), { a: "[1,2]" });
});

test("a value changed in a walk is written", () => {
  const rows = rowsOf(stats, {
    a: '{"flights":1,"delays":[]}',
    b: '{"flights":2,"delays":[]}',
  });
  for (const each of rows.values()) {
    each.delays.push(7);
  }
  rows.forEach((each) => {
    each.flights += 1;
  });
  assert.deepEqual(unit(rows), {
    a: '{"flights":2,"delays":[7]}',
    b: '{"flights":3,"delays":[7]}',
  });
});

test("a value that was only read is not written", () => {
  // Another program has spelled it otherwise.
  const rows = rowsOf(stats, { a: '{ "delays": [], "flights": 1 }' });
  const found = () => rows.get("a") ?? assert.fail();
  assert.equal(found().flights, 1);
  assert.deepEqual(unit(rows), {});
  found().flights = 2;
  assert.deepEqual(unit(rows), { a: '{"flights":2,"delays":[]}' });
  found().flights = 3;
  found().flights = 2;
  assert.deepEqual(unit(rows), {});
});

test("a default becomes a row when it changes", () => {
  const rows = rowsOf<number[], never>(numbers, {}, () => []);
  assert.deepEqual(rows.get("a"), []);
  assert.equal(rows.get("a"), rows.get("a"));
  assert.equal(rows.has("a"), false);
  assert.equal(rows.delete("a"), false);
  assert.deepEqual(all(rows), new Map());
  assert.deepEqual(unit(rows), {});
  rows.get("a").push(1);
  assert.equal(rows.has("a"), true);
  assert.deepEqual(all(rows), new Map([["a", [1]]]));
  rows.get("a").push(2);
  assert.deepEqual(unit(rows), { a: "[1,2]" });
});

test("a default in place of a row that was removed", () => {
  const rows = rowsOf<number[], never>(numbers, { a: "[1]", b: "[2]" }, () => []);
  rows.delete("a");
  rows.delete("b");
  assert.deepEqual([rows.get("a"), rows.get("b")], [[], []]);
  rows.get("b").push(3);
  assert.deepEqual(all(rows), new Map([["b", [3]]]));
  assert.deepEqual(unit(rows), { a: null, b: "[3]" });
});

test("a default of a fixed type becomes a row when it is set", () => {
  const rows = rowsOf<number, never>(int(), {}, () => 0);
  assert.equal(rows.get("a"), 0);
  assert.equal(rows.has("a"), false);
  assert.deepEqual(unit(rows), {});
  rows.set("a", rows.get("a") + 1);
  assert.deepEqual(unit(rows), { a: long(1) });
});

test("undo leaves nothing", () => {
  const rows = rowsOf<number[], never>(numbers, { a: "[1]" }, () => []);
  rows.get("a").push(2);
  rows.get("b").push(3);
  rows.set("c", [4]);
  rows.settle();
  rows.undo();
  assert.deepEqual(all(rows), new Map([["a", [1]]]));
  assert.deepEqual(rows.get("b"), []);
  assert.deepEqual(unit(rows), {});
});

test("removing", () => {
  const rows = rowsOf(numbers, { a: "[1]", b: "[2]", c: "[]", d: "[]" });
  rows.get("a")?.push(5);
  assert.deepEqual([rows.delete("a"), rows.delete("b"), rows.delete("a")], [true, true, false]);
  assert.equal(rows.get("a"), undefined);
  assert.deepEqual(
    all(rows),
    new Map([
      ["c", []],
      ["d", []],
    ]),
  );
  rows.get("c");
  rows.set("e", [1]);
  rows.clear();
  assert.equal(rows.size, 0);
  assert.deepEqual(unit(rows), { a: null, b: null, c: null, d: null, e: null });
});

test("a row that was never there is not removed in Kafka", () => {
  const rows = rowsOf(int());
  assert.equal(rows.get("a"), undefined);
  rows.set("a", 1);
  rows.delete("a");
  assert.deepEqual(unit(rows), {});
});

test("sizes are those of what is written", () => {
  const rows = rowsOf(bytes(), { gone: "x" });
  rows.set("ä", Buffer.from("12345"));
  rows.delete("gone");
  assert.equal(rows.settle(), 2 * 25 + 2 + 5 + 4);
  assert.deepEqual([...rows.changes.keys()], ["\u00c3\u00a4", "gone"]);
});

test("null is no value, and no row has it as key", () => {
  const rows = rowsOf(json());
  refused(() => rows.set("a", null), UsageError, /^null is no value of table 't'; delete\(\) rem/);
  refused(() => rows.set("a", undefined), UsageError, /^undefined is no value/);
  const read = new ReadRows(new SourceTable("s", str(), int(), "s"), () => [view()]);
  for (const each of [rows, read]) {
    assert.equal(each.has(null), false);
    refused(
      () => each.get(null as never),
      SerdeError,
      /^null cannot be a key of table '[st]': must/,
    );
  }
});

test("what cannot be written names table and key", () => {
  const rows = rowsOf(int() as Serde<unknown>, { a: "xy" });
  rows.set("b", "text");
  const says = /^the value of 'b' in table 't' cannot be written: must be a whole number, not str/;
  refused(() => rows.settle(), SerdeError, says);
  rows.undo();
  refused(
    () => rows.set(7 as never, 1),
    SerdeError,
    /^7 cannot be a key of table 't': must be a s/,
  );
  refused(
    () => rows.get("\ud800"),
    SerdeError,
    /cannot be a key of table 't': the text has a lone/,
  );
  refused(
    () => rows.get("a"),
    SerdeError,
    /^the row 'a' of table 't' does not decode: 'xy' is no L/,
  );
  assert.deepEqual(unit(rows), {});
});

test("a key that does not decode names the table", () => {
  const rows = rowsOf(int(), { "\xff": long(1) });
  refused(
    () => [...rows.keys()],
    SerdeError,
    /^the key hex ff of table 't' does not decode: hex ff/,
  );
});

test("what a serde of the user throws is named", () => {
  const broken: Serde<string> = {
    encode(value) {
      throw new RangeError(value);
    },
    decode() {
      throw new RangeError();
    },
  };
  const rows = rowsOf(broken, { a: "xy" });
  refused(() => rows.get("a"), SerdeError, /of table 't' does not decode: RangeError \(serde\)$/);
  rows.set("a", "text");
  refused(() => rows.settle(), SerdeError, /in table 't' cannot be written: RangeError: text/);
});

test("bytes that were set are copied: the program may use its own again", () => {
  const rows = rowsOf(bytes());
  const mine = Buffer.from("a");
  rows.set("k", mine);
  rows.settle();
  rows.keep();
  mine[0] = 0;
  assert.deepEqual(Buffer.from(rows.get("k") ?? assert.fail()), Buffer.from("a"));
});

test("a serde may give any Uint8Array", () => {
  const plain: Serde<string> = {
    encode: (value) => new TextEncoder().encode(`(${value})`).subarray(1, -1),
    decode: String,
  };
  const rows = new Rows(new Table("t", plain, plain), view({ b: "2" }));
  rows.set("a", "1");
  assert.equal(rows.get("b"), "2");
  assert.deepEqual(unit(rows), { a: "1" });
  assert.deepEqual(
    all(rows),
    new Map([
      ["a", "1"],
      ["b", "2"],
    ]),
  );
});

test("read-only rows", () => {
  const source = new SourceTable("s", str(), int(), "s");
  const parts = [view({ a: long(0) }), new StoreRows(store({ b: long(2) }))];
  const rows = new ReadRows(source, () => parts);
  assert.deepEqual([rows.get("a"), rows.get("b"), rows.get("c")], [0, 2, undefined]);
  assert.deepEqual([rows.has("b"), rows.has("c"), rows.size], [true, false, 2]);
  assert.deepEqual(
    all(rows),
    new Map([
      ["a", 0],
      ["b", 2],
    ]),
  );
  assert.deepEqual(
    [[...rows.keys()], [...rows.values()]],
    [
      ["a", "b"],
      [0, 2],
    ],
  );
  const seen: unknown[] = [];
  rows.forEach((value, key) => {
    seen.push(key, value);
  });
  assert.deepEqual(seen, ["a", 0, "b", 2]);
  for (const write of [() => rows.set(), () => rows.delete(), () => rows.clear()]) {
    refused(write, UsageError, /^table 's' is read-only here/);
  }
});
