/** Tables for tests of rows. */

import { int, json, type Serde, str, t } from "../../src/serdes/index.js";
import { MemoryStore } from "../../src/stores/memory.js";
import { TableView } from "../../src/tables.js";
import { Table } from "../../src/worker/declared.js";
import { Rows } from "../../src/worker/rows.js";

export type Texts = Readonly<Record<string, string | null>>;

export const numbers = json(t.list(t.int));
export const stats = json(t.object({ flights: t.int, delays: t.list(t.int) }));

export function store(rows: Readonly<Record<string, string>>): MemoryStore {
  const made = new MemoryStore();
  made.applyCommit(
    new Map(Object.entries(rows).map(([key, value]) => [key, Buffer.from(value, "latin1")])),
    "v1:1",
  );
  return made;
}

/** A table with these rows, as texts of one character for each byte. */
export function view(rows: Readonly<Record<string, string>> = {}): TableView {
  return new TableView("t", store(rows), true);
}

export function rowsOf<V, M = undefined>(
  value: Serde<V>,
  rows: Readonly<Record<string, string>> = {},
  makeDefault?: () => V | M,
): Rows<string, V, M> {
  return new Rows(new Table<string, V, M>("t", str(), value, makeDefault), view(rows));
}

/** End the unit well, and give what it has written. */
export function unit(rows: Pick<Rows<unknown, unknown>, "settle" | "changes" | "keep">): Texts {
  rows.settle();
  const written = Array.from(rows.changes, ([key, data]) => [
    key,
    data?.toString("latin1") ?? null,
  ]);
  rows.keep();
  return Object.fromEntries(written) as Texts;
}

export const all = <K, V>(rows: Iterable<[K, V]>) => new Map(rows);
export const long = (value: number) => Buffer.from(int().encode(value)).toString("latin1");
