/** What a worker keeps of rows from unit to unit, and when it must not. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { int, str } from "../../src/serdes/index.js";
import { Table } from "../../src/worker/declared.js";
import { Rows } from "../../src/worker/rows.js";
import { Worker } from "../../src/worker/worker.js";
import { long } from "./tables.js";
import { pair, rowsOf, staged, until } from "./working.js";

test("a table that is replayed once more is read anew", async (t) => {
  const worker = new Worker({ group: "g" });
  const words = worker.topic("words", { key: str(), value: str() });
  const counts = worker.table("counts", { key: str(), value: int(), default: () => 0 });
  worker.each(words, { tables: [counts] }, ({ key }, ctx) => {
    ctx.table(counts).set(key ?? "", ctx.table(counts).get(key ?? "") + 1);
  });
  const s = await staged(t, worker);
  const task = await s.open("words");
  s.records(task, "words", pair("k", "v"));
  await s.commit();
  s.fake.reset(task, "counts");
  await s.fake.expect("opened");
  s.fake.restore(task, "counts", [[Buffer.from("k"), Buffer.from(long(40), "latin1")]]);
  await s.fake.restored(task);
  s.records(task, "words", pair("k", "v"));
  const commit = await s.commit();
  assert.deepEqual(rowsOf(commit), { counts: [["k", String(Buffer.from(long(41), "latin1"))]] });
  await until(() => s.runtime.clean);
});

test("large values are not kept, however few they are", () => {
  const large = "x".repeat(1 << 20);
  const found: string[] = [];
  const view = {
    find(key: string) {
      found.push(key);
      return Buffer.from(large);
    },
    write() {},
    scan: () => [],
  };
  const rows = new Rows(new Table<string, string>("t", str(), str()), view);
  const read = (key: string): void => {
    assert.equal(rows.get(key), large);
    rows.settle();
    rows.keep();
  };
  for (let i = 0; i < 100; i++) {
    read(String(i));
  }
  found.length = 0;
  for (let i = 0; i < 100; i++) {
    read(String(i));
  }
  assert.ok(found.length > 90, `only ${found.length} were read anew`);
});
