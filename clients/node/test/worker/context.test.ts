/** What a handler gets beside its records, over the work of one task. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { PillionError } from "../../src/errors.js";
import { bytes, int, json, str } from "../../src/serdes/index.js";
import { MemoryStore } from "../../src/stores/memory.js";
import { TableView } from "../../src/tables.js";
import { NOBODY } from "../../src/testing/writes.js";
import {
  type CallScope,
  Context,
  MISTAKES,
  plainHandler,
  type Send,
} from "../../src/worker/context.js";
import { GlobalTable, Output, SourceTable, Table } from "../../src/worker/declared.js";
import { Work } from "../../src/worker/work.js";

const counts = new Table<string, number, never>("counts", str(), int(), () => 0);
const lists = new Table("lists", str(), json<number[]>());
const users = new SourceTable("users", str(), str(), "users-v2");
const places = new GlobalTable("places", str(), str(), "places");
const out = new Output("out", str(), int());
const raw = new Output("raw", bytes(), bytes());

class Bench implements CallScope {
  readonly views = new Map(
    [counts, lists, users].map(({ name }) => [name, new TableView(name, new MemoryStore(), true)]),
  );
  readonly global = new TableView("places", new MemoryStore(), true);
  readonly work = new Work({ ...NOBODY, name: "t/0" }, this.views, () => [this.global]);
  readonly ctx = new Context("count", this.work, [counts, lists, users, places], [out, raw], this);
  readonly abort = new AbortController();
  open = true;
  told = 0;

  inside(): boolean {
    return this.open;
  }

  stale(): boolean {
    return this.abort.signal.aborted;
  }

  signal(): AbortSignal {
    return this.abort.signal;
  }

  progress(): void {
    this.told++;
  }

  /** End the unit well. */
  keep(): number {
    const size = this.work.settle();
    this.work.keep(size);
    return size;
  }
}

const b = (text: string) => Buffer.from(text);

function fails(run: () => unknown, code: string, text: string | RegExp): void {
  assert.throws(run, (error) => {
    assert.ok(error instanceof PillionError, String(error));
    assert.equal(error.code, code);
    typeof text === "string" ? assert.equal(error.text, text) : assert.match(error.text, text);
    return true;
  });
}

test("a unit is kept whole: rows in the overlays, records for the commit", () => {
  const { ctx, work, views, ...bench } = new Bench();
  assert.equal(ctx.table(counts), ctx.table(counts));
  ctx.table(counts).set("a", ctx.table(counts).get("a") + 1);
  ctx.send(out, { key: "a", value: 1, headers: [["h", b("x")]], timestamp: 5 });
  ctx.send(raw, {});
  assert.deepEqual([...work.takeOutputs()], []);
  assert.equal(work.settle(), 25 + 1 + 8 + (25 + 1 + 8 + 8 + 4 + 1) + 25);
  work.keep(work.settle());
  assert.equal(work.size, 34 + 47 + 25);
  assert.equal(views.get("counts")?.find("a")?.length, 8);
  assert.deepEqual(
    [...work.takeOutputs()],
    [
      ["out", [{ key: b("a"), value: int().encode(1), headers: [["h", b("x")]], timestamp: 5 }]],
      ["raw", [{ key: null, value: null, headers: undefined, timestamp: undefined }]],
    ],
  );
  assert.deepEqual([work.size, [...work.takeOutputs()]], [0, []]);
  assert.ok(bench);
});

test("a unit is undone whole", () => {
  const bench = new Bench();
  const { ctx, work } = bench;
  ctx.table(counts).set("a", 1);
  ctx.send(out, { key: "a" });
  bench.keep();
  ctx.table(counts).set("a", 2);
  ctx.table(lists).set("a", [1]);
  ctx.send(out, { key: "b" });
  work.undo();
  assert.equal(bench.keep(), 0);
  assert.deepEqual([ctx.table(counts).get("a"), ctx.table(lists).get("a")], [1, undefined]);
  assert.equal(work.takeOutputs().get("out")?.length, 1);
});

test("source and global tables are read", () => {
  const { ctx, views, global } = new Bench();
  views.get("users")?.write("u", b("Ann"));
  global.write("p", b("SFO"));
  assert.deepEqual([ctx.table(users).get("u"), ctx.table(places).get("p")], ["Ann", "SFO"]);
  assert.equal(ctx.table(places), ctx.table(places));
});

test("where it is", () => {
  const bench = new Bench();
  const { ctx } = bench;
  assert.deepEqual([ctx.task, ctx.partition, ctx.stale], ["t/0", 0, false]);
  ctx.progress();
  assert.equal(bench.told, 1);
  assert.equal(ctx.signal.aborted, false);
  bench.abort.abort();
  assert.deepEqual([ctx.stale, ctx.signal.aborted], [true, true]);
});

test("tables and outputs that were not declared are mistakes of the program", () => {
  const { ctx } = new Bench();
  const other = new Table("other", str(), int());
  const cases: [() => unknown, string, string][] = [
    [
      () => ctx.table(other),
      "undeclared_table",
      "count uses table 'other' without declaring it; add it to tables: [...]",
    ],
    [
      () => ctx.table("counts" as never),
      "undeclared_table",
      "ctx.table() takes the table itself, not its name 'counts'",
    ],
    [
      () => ctx.send(new Output("out", str(), int()), {}),
      "undeclared_output",
      "count writes to 'out', which is no output of this worker; make it with output() and give " +
        "what that returns",
    ],
    [
      () => ctx.send("out" as never, {}),
      "undeclared_output",
      "count writes to 'out', which is no output of this worker; make it with output() and give " +
        "what that returns",
    ],
  ];
  for (const [run, code, text] of cases) {
    fails(run, code, text);
    assert.ok(MISTAKES.has(code));
  }
  assert.ok(MISTAKES.has(plainHandler("count").code));
});

test("what no record can have is refused", () => {
  const { ctx, work } = new Bench();
  const time =
    "the timestamp of a record for output 'out' must be milliseconds, a whole number from";
  const wrong: [Partial<Record<keyof Send<string, number>, unknown>>, string][] = [
    [{ headers: [["a", "b"]] }, "header 'a' for output 'out' must be bytes or null, not 'b'"],
    [{ headers: [[1, b("b")]] }, "the name of a header for output 'out' must be a string, not 1"],
    [
      { headers: { a: b("b") } },
      "the headers of a record for output 'out' must be an array of [name, value]",
    ],
    [{ headers: [["a"]] }, "a header for output 'out' must be [name, value], not [ 'a' ]"],
    [{ timestamp: 1.5 }, `${time} 0 on, not 1.5`],
    [{ timestamp: -1 }, `${time} 0 on, not -1`],
    [{ timestamp: new Date(0) }, `${time} 0 on, not 1970-01-01T00:00:00.000Z`],
  ];
  for (const [record, text] of wrong) {
    fails(() => ctx.send(out, record as Send<string, number>), "usage", text);
  }
  fails(
    () => ctx.send(out, { key: 1 as never }),
    "serde",
    "a key for output 'out' cannot be written: must be a string, not number",
  );
  fails(
    () => ctx.send(out, { value: 0.5 }),
    "serde",
    /^a value for output 'out' cannot be written: 0.5 is no whole number/,
  );
  fails(() => ctx.send(out, undefined as never), "usage", /^a record for output 'out' must be/);
  assert.equal(work.settle(), 0);
});

test("what was sent is the program's no more", () => {
  const { ctx, work } = new Bench();
  const mine = b("abc");
  ctx.send(raw, { key: mine, value: mine, headers: [["h", mine]] });
  mine.fill(0);
  work.keep(work.settle());
  const [record] = work.takeOutputs().get("raw") ?? [];
  assert.deepEqual(
    [record?.key, record?.value, record?.headers],
    [b("abc"), b("abc"), [["h", b("abc")]]],
  );
});

test("a context is good for its call", () => {
  const bench = new Bench();
  bench.open = false;
  const { ctx } = bench;
  for (const use of [() => ctx.table(counts), () => ctx.send(out, {}), () => ctx.progress()]) {
    fails(
      use,
      "usage",
      "the context of count is used after it has returned; await there whatever it starts",
    );
  }
  assert.equal(bench.told, 0);
});
