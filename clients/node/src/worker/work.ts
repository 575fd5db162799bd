/**
 * What the handlers of a task have done: the unit in hand, and what waits for the next commit.
 *
 * Flow: a handler reads and writes through rows() and send(); at the end of its unit settle(), then
 * keep() or undo(); takeOutputs() begins a commit, for which the rows wait in the tables' overlays.
 */

import { type OutputRecord, PLAIN } from "../encode.js";
import { UsageError } from "../errors.js";
import type { Task } from "../tasks.js";
import type { DeclaredTable, GlobalTable, Table } from "./declared.js";
import { ReadRows, type Source } from "./read-rows.js";
import { Rows, type View } from "./rows.js";

/** Finds the partitions of a global table that are here. */
export type Globals = (table: GlobalTable<unknown, unknown>) => readonly Source[];
type Writable = Table<unknown, unknown, unknown>;

/** The tables and outputs of one task epoch. */
export class Work {
  readonly task: Task;
  /** About how many bytes wait for the next commit. */
  size = 0;
  readonly #views: ReadonlyMap<string, View>;
  readonly #globals: Globals;
  readonly #rows = new Map<DeclaredTable, Rows<unknown, unknown, unknown>>();
  readonly #read = new Map<DeclaredTable, ReadRows<unknown, unknown>>();
  readonly #unit: [topic: string, record: OutputRecord][] = [];
  #outputs = new Map<string, OutputRecord[]>();

  constructor(task: Task, views: ReadonlyMap<string, View>, globals: Globals) {
    this.task = task;
    this.#views = views;
    this.#globals = globals;
  }

  /** Find a table of the task, or a global one. */
  rows(table: DeclaredTable): Rows<unknown, unknown, unknown> | ReadRows<unknown, unknown> {
    return this.#rows.get(table) ?? this.#read.get(table) ?? this.#open(table);
  }

  /** Write a record with the unit. */
  send(topic: string, record: OutputRecord): void {
    this.#unit.push([topic, record]);
  }

  /**
   * Encode what user code has written or changed. Gives about how many bytes the unit writes.
   *
   * Throws SerdeError; the unit is to be undone then.
   */
  settle(): number {
    let size = 0;
    for (const rows of this.#rows.values()) {
      size += rows.settle();
    }
    for (const [, { key, value, headers }] of this.#unit) {
      size += PLAIN + (key?.length ?? 0) + (value?.length ?? 0);
      for (const [name, data] of headers ?? []) {
        size += 8 + 4 * name.length + (data?.length ?? 0);
      }
    }
    return size;
  }

  /** The unit is whole: its writes are part of the next commit. size is what settle() gave. */
  keep(size: number): void {
    for (const rows of this.#rows.values()) {
      rows.keep();
    }
    if (this.#unit.length > 0) {
      this.#take();
    }
    this.size += size;
  }

  /** The unit has failed: nothing of it is left. */
  undo(): void {
    for (const rows of this.#rows.values()) {
      rows.undo();
    }
    this.#unit.length = 0;
  }

  /** A commit begins. */
  takeOutputs(): Map<string, OutputRecord[]> {
    const outputs = this.#outputs;
    this.#outputs = new Map();
    this.size = 0;
    return outputs;
  }

  #take(): void {
    for (const [topic, record] of this.#unit) {
      const records = this.#outputs.get(topic);
      if (records === undefined) {
        this.#outputs.set(topic, [record]);
      } else {
        records.push(record);
      }
    }
    this.#unit.length = 0;
  }

  #open(table: DeclaredTable): Rows<unknown, unknown, unknown> | ReadRows<unknown, unknown> {
    if (table.kind === "table") {
      const rows = new Rows<unknown, unknown, unknown>(table as Writable, this.#view(table.name));
      this.#rows.set(table, rows);
      return rows;
    }
    const sources =
      table.kind === "globalTable" ? () => this.#globals(table) : this.#own(table.name);
    const read = new ReadRows(table, sources);
    this.#read.set(table, read);
    return read;
  }

  #own(name: string): () => readonly Source[] {
    const views = [this.#view(name)];
    return () => views;
  }

  #view(name: string): View {
    const view = this.#views.get(name);
    if (view === undefined) {
      throw new UsageError(`task ${this.task.name} has no table '${name}'`);
    }
    return view;
  }
}
