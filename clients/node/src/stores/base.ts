/**
 * What a store is. storeConformance of pillion/testing checks that one keeps its promises.
 *
 * A store holds one table of one task: rows of bytes, and the checkpoint that says what it is
 * complete up to. The checkpoint is opaque: it is kept beside the rows and given back as it came.
 *
 * INVARIANT: rows and checkpoint change together: after a crash the checkpoint is never newer than
 * the rows, so that a replay from it makes the table whole.
 * INVARIANT: a store is never ahead of Kafka: a commit's rows come only with applyCommit, after it
 * was committed.
 */

import type { Batch } from "../batch.js";
import type { Task } from "../tasks.js";

/**
 * A key's bytes as latin1 text, one character for each: what a Map has as a key, in the order of
 * bytes. Buffer.from(key, "latin1") gives the bytes.
 */
export type KeyText = string;

/** Rows to write: null as value removes the key. */
export type Writes = ReadonlyMap<KeyText, Buffer | null>;

/** One table of one task. Used from one event loop, by one owner at a time. Throws StoreError. */
export interface Store {
  /** Whether items() come in the order of their keys' bytes. */
  readonly ordered: boolean;

  /** How many rows there are. May walk the whole table. */
  readonly size: number;

  /** What the store is complete up to; null for an empty store. */
  checkpoint(): string | null;

  /** The value of a key, in memory of its own; null when there is none. */
  get(key: KeyText): Buffer | null;

  /**
   * The rows with start <= key < stop, without one no bound; in key order if ordered.
   *
   * The store may change meanwhile: a row that is there all the time comes once, one that comes or
   * goes once or not at all. An iterator that is given up halfway holds nothing that another call,
   * or close, would wait for.
   */
  items(start?: KeyText, stop?: KeyText): IterableIterator<[KeyText, Buffer]>;

  /**
   * Take rows from Kafka and batch.checkpoint, if it has one, as one.
   *
   * The last record of a key wins, a null value removes it, a record without a key is passed over.
   * May be kept in memory until flush, if a crash then loses rows and checkpoint alike.
   */
  apply(batch: Batch): void;

  /** Take the rows of a commit that is whole in Kafka, and its checkpoint, as one. */
  applyCommit(rows: Writes, checkpoint: string): void;

  /** Make what was applied survive a crash of this process. */
  flush(): void;

  /** Remove all rows and the checkpoint. */
  wipe(): void;

  /** Flush and let go; the same table may be opened again. May be called again. */
  close(): void;
}

/** Opens stores. */
export interface Stores {
  /**
   * Open the store of a table of the task, with what it held before.
   *
   * Throws StoreError when it cannot be opened now, for example because another process has it.
   */
  open(task: Task, table: string): Store;
}
