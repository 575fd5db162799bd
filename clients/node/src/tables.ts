/**
 * Tables: the stores of a worker's tasks, kept right by the events of its connection.
 *
 * Flow: Tables stands between the connection and user code. It opens stores at assigned, applies
 * restore, wipes at reset, closes at lost and after revoking, and gives the answers that belong to
 * each; user code sees the same events and needs to act on records alone. What it writes is kept in
 * an overlay (view.ts); commit() sends the overlay as changelog and moves it into the store once it
 * is committed.
 *
 * INVARIANT: a store takes a commit only after it was committed, and only in the epoch it was made
 * in.
 * INVARIANT: a commit is in the store before anything that came behind its answer is handled,
 * whether or not somebody waits for it.
 */

import { Batch } from "./batch.js";
import type { Committed, Outcome, Outputs } from "./commits.js";
import type { Connection } from "./connection.js";
import { CommitError, ConnectionLost, PillionError, StoreError, UsageError } from "./errors.js";
import type { Event, RecordsEvent } from "./events.js";
import { type Named, pairs } from "./named.js";
import type { KeyText, Stores } from "./stores/base.js";
import { MemoryStores } from "./stores/memory.js";
import type { Task } from "./tasks.js";
import { type Layer, TableView } from "./view.js";

export { type Layer, TableView } from "./view.js";

/** What a commit of tables has beside its positions and rows. */
export interface SendOptions {
  readonly outputs?: Outputs | undefined;
}

/** Wait for a commit's end, as Tables.commit does: null when its epoch ended first. */
export async function outcome(sent: Promise<Committed>): Promise<Committed | null> {
  try {
    return await sent;
  } catch (error) {
    if ((error instanceof CommitError || error instanceof ConnectionLost) && error.retriable) {
      return null;
    }
    throw error;
  }
}

type Layers = ReadonlyMap<TableView, Layer>;

/** The tables of one task epoch, and how far its records have come. */
class TaskTables {
  readonly task: Task;
  readonly tables = new Map<string, TableView>();
  /** Positions after the batches that user code has taken. */
  readonly #next = new Map<string, number>();
  /** Those after each batch, by its end. */
  readonly #taken = new Map<string, ReadonlyMap<string, number>>();
  /** Those of the commits so far. */
  #told: ReadonlyMap<string, number> = new Map();

  constructor(task: Task) {
    this.task = task;
  }

  /** User code gets a batch. */
  take(batch: Batch): void {
    this.#next.set(batch.topic, batch.nextOffset);
    this.#taken.set(endOf(batch), new Map(this.#next));
  }

  /** What a commit names: the ends of what was taken up to the batch, or of everything. */
  positions(of: Batch | null): ReadonlyMap<string, number> {
    return of === null ? this.#next : (this.#taken.get(endOf(of)) ?? this.#told);
  }

  /** A commit with these positions is on its way. */
  told(positions: ReadonlyMap<string, number>): void {
    this.#told = positions;
    for (const [end, after] of this.#taken) {
      if ([...after].every(([topic, offset]) => offset <= (positions.get(topic) ?? -1))) {
        this.#taken.delete(end);
      }
    }
  }

  close(failed: (error: StoreError) => void): void {
    for (const { store } of this.tables.values()) {
      try {
        store.close();
      } catch (error) {
        failed(asStoreError(error));
      }
    }
  }
}

/** Iterate over it in place of the connection: `for await (const event of tables)`. */
export class Tables implements AsyncIterable<Event>, Disposable {
  readonly conn: Connection;
  readonly #stores: Stores;
  readonly #tasks = new Map<string, TaskTables>();
  /** Revoked, until user code has seen it, and made its last commit. */
  #leaving: Task | null = null;

  constructor(conn: Connection, stores: Stores = new MemoryStores()) {
    this.conn = conn;
    this.#stores = stores;
  }

  /** Close all stores. May be called again. */
  close(): void {
    for (const tables of this.#tasks.values()) {
      tables.close(this.#notice);
    }
    this.#tasks.clear();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** The tables of a task, or of a batch's task. Throws UsageError when its epoch is over. */
  of(of: Task | Batch): ReadonlyMap<string, TableView> {
    const task = of instanceof Batch ? of.task : of;
    const found = this.#of(task);
    if (found === undefined) {
      throw new UsageError(
        `task ${task.name} of epoch ${task.epoch} has no open tables; use those of its newest assigned event`,
      );
    }
    return found.tables;
  }

  /** Find a key in a global table, whatever its partition. */
  lookup(table: string, key: KeyText): Buffer | null {
    for (const { task, tables } of this.#tasks.values()) {
      const value = task.role === "global" ? (tables.get(table)?.find(key) ?? null) : null;
      if (value !== null) {
        return value;
      }
    }
    return null;
  }

  [Symbol.asyncIterator](): AsyncIterator<Event, undefined> {
    return {
      next: async () => {
        const task = this.#leaving;
        this.#leaving = null;
        if (task !== null) {
          this.release(task);
        }
        const value = await this.next();
        if (value?.type === "revoking") {
          this.#leaving = value.task;
        }
        return value === null ? { done: true, value: undefined } : { done: false, value };
      },
    };
  }

  /** Wait for the next event, as Connection.next does. Revoking is answered with release(). */
  async next(busy?: (event: Event) => boolean): Promise<Event | null> {
    let event = await this.conn.next(busy);
    while (event?.type === "records" && this.#of(event.task) === undefined) {
      event = await this.conn.next(busy); // its store has failed; lost is on its way
    }
    if (event === null || event.type === "waiting") {
      return event;
    }
    try {
      this.#handle(event);
    } catch (error) {
      const table = event.type === "restore" || event.type === "reset" ? event.table : "";
      this.fail(event.task, asStoreError(error), table);
    }
    return event;
  }

  /**
   * Commit what the task wrote, the records up to this batch (or all taken), and outputs.
   *
   * Resolves to null when the epoch or the connection ended first: lost follows, and the records
   * come again. Rejects with the CommitError when another attempt would end alike. A commit that
   * nobody waits for goes on nevertheless.
   */
  async commit(
    of: Batch | RecordsEvent | Task,
    options: SendOptions = {},
  ): Promise<Committed | null> {
    const batch = of instanceof Batch ? of : "batch" in of ? of.batch : null;
    const task = batch === null ? (of as Task) : batch.task;
    const mine = this.#of(task);
    return mine === undefined
      ? null
      : await outcome(this.send(task, mine.positions(batch), options));
  }

  /**
   * Begin a commit of these positions: next offsets by source. outcome() waits for its end, and
   * nobody has to.
   *
   * Throws CommitRejected at once for what the sidecar would refuse: nothing has changed then.
   */
  send(
    task: Task,
    positions: Named<number>,
    { outputs = {} }: SendOptions = {},
  ): Promise<Committed> {
    const mine = this.#of(task);
    if (mine === undefined) {
      return this.conn.commit(task, { sourceNext: positions }); // which says that its epoch is over
    }
    const layers = new Map<TableView, Layer>();
    const changelog = new Map<string, (readonly [Buffer, Buffer | null])[]>();
    for (const view of mine.tables.values()) {
      const layer = view.beginCommit();
      layers.set(view, layer);
      if (layer.size > 0) {
        changelog.set(view.name, rowsOf(layer));
      }
    }
    const sourceNext = new Map(pairs(positions));
    try {
      const sent = this.conn.commit(task, { sourceNext, changelog, outputs }, (outcome) =>
        this.#settle(mine, layers, outcome),
      );
      mine.told(sourceNext);
      return sent;
    } catch (error) {
      for (const [view, layer] of layers) {
        view.endCommit(layer, null);
      }
      throw error;
    }
  }

  /** Answer revoking: the last commit of the task was made. Its stores are closed. */
  release(task: Task): void {
    this.#drop(task);
    this.conn.release(task);
  }

  /** Say that a store of the task is of no use now. The sidecar opens the task anew. */
  fail(task: Task, error: StoreError, table = ""): void {
    this.#notice(error);
    this.#tasks.get(task.name)?.close(this.#notice);
    this.#tasks.delete(task.name);
    this.conn.fail(task, error.text, { table });
  }

  /** A commit has its answer. */
  #settle(mine: TaskTables, layers: Layers, outcome: Outcome): void {
    if (
      outcome instanceof PillionError ||
      this.#of(mine.task) !== mine ||
      !this.conn.keeps(mine.task)
    ) {
      return; // the epoch is over, and what it wrote with it; lost may still be in the queue
    }
    try {
      for (const [view, layer] of layers) {
        // A table that was not written has no new checkpoint, and nothing to move.
        view.endCommit(layer, outcome.checkpoints.get(view.name) ?? null);
      }
    } catch (error) {
      this.fail(mine.task, asStoreError(error));
    }
  }

  #handle(event: Exclude<Event, { type: "waiting" }>): void {
    const { task } = event;
    const tables = this.#of(task);
    switch (event.type) {
      case "assigned":
        this.#open(task);
        break;
      case "restore":
        tables?.tables.get(event.table)?.store.apply(event.batch);
        break;
      case "records":
        tables?.take(event.batch);
        break;
      case "restored":
        if (tables !== undefined) {
          flush(tables);
          this.conn.ready(task);
        }
        break;
      case "promoted":
      case "demoted":
        if (!this.#adopt(task, event.was)) {
          // Said of the former epoch, it was not heard.
          this.conn.fail(task, "a store of the task has failed");
        } else if (event.type === "promoted") {
          this.conn.ready(task);
        }
        break;
      case "reset":
        if (tables !== undefined) {
          tables.tables.get(event.table)?.store.wipe();
          this.conn.opened(task, new Map([[event.table, null]]));
        }
        break;
      case "lost":
        this.#drop(task);
        break;
      case "restoring":
      case "revoking":
        break;
    }
  }

  #open(task: Task): void {
    this.#tasks.get(task.name)?.close(this.#notice);
    this.#tasks.delete(task.name);
    const mine = new TaskTables(task);
    const checkpoints = new Map<string, string | null>();
    try {
      for (const name of task.tables.keys()) {
        const store = this.#stores.open(task, name);
        mine.tables.set(name, new TableView(name, store, writable(task, name)));
        checkpoints.set(name, store.checkpoint());
      }
    } catch (error) {
      mine.close(this.#notice);
      throw error;
    }
    this.#tasks.set(task.name, mine);
    this.conn.opened(task, checkpoints);
  }

  /** Go on with the stores of the former epoch; false when they are of no use. */
  #adopt(task: Task, was: Task): boolean {
    const old = this.#of(was);
    if (old === undefined) {
      return false;
    }
    const now = new TaskTables(task);
    this.#tasks.set(task.name, now);
    for (const [name, { store }] of old.tables) {
      now.tables.set(name, new TableView(name, store, writable(task, name)));
    }
    flush(now);
    return true;
  }

  #of(task: Task): TaskTables | undefined {
    const found = this.#tasks.get(task.name);
    return found?.task === task ? found : undefined;
  }

  #drop(task: Task): void {
    const found = this.#of(task);
    if (found !== undefined) {
      this.#tasks.delete(task.name);
      found.close(this.#notice);
    }
  }

  readonly #notice = (error: StoreError): void => this.conn.notice(error.message);
}

function endOf(batch: Batch): string {
  return `${batch.nextOffset} ${batch.topic}`;
}

function rowsOf(layer: Layer): (readonly [Buffer, Buffer | null])[] {
  const rows: (readonly [Buffer, Buffer | null])[] = [];
  for (const [key, value] of layer) {
    rows.push([Buffer.from(key, "latin1"), value]);
  }
  return rows;
}

function writable(task: Task, table: string): boolean {
  return task.role === "active" && task.tables.get(table)?.kind === "changelog";
}

function flush(tables: TaskTables): void {
  for (const { store } of tables.tables.values()) {
    store.flush();
  }
}

/** Let pass what is no fault of a store. */
function asStoreError(error: unknown): StoreError {
  if (error instanceof StoreError) {
    return error;
  }
  throw error;
}
