/** One table of one task: the committed rows, and over them what is not committed yet. */

import { UsageError } from "./errors.js";
import type { KeyText, Store, Writes } from "./stores/base.js";

/** What was written between two commits. */
export type Layer = Map<KeyText, Buffer | null>;

/** A table as user code reads and writes it. A source or global table is read-only. */
export class TableView {
  readonly name: string;
  readonly store: Store;
  readonly writable: boolean;
  #overlay: Layer = new Map();
  /** In commits on their way, oldest first. */
  #sent: Layer[] = [];

  constructor(name: string, store: Store, writable: boolean) {
    this.name = name;
    this.store = store;
    this.writable = writable;
  }

  /** The value of a key; null when there is none. */
  find(key: KeyText): Buffer | null {
    const written = this.#overlay.get(key);
    if (written !== undefined) {
      return written;
    }
    for (let i = this.#sent.length - 1; i >= 0; i--) {
      const sent = this.#sent[i]?.get(key);
      if (sent !== undefined) {
        return sent;
      }
    }
    return this.store.get(key);
  }

  /** Set or, with null, remove a row with the next commit. Throws UsageError. */
  write(key: KeyText, value: Buffer | null): void {
    this.#check(key, value);
    this.#overlay.set(key, value);
  }

  /** Set and remove rows with the next commit: all of them, or none when it throws. */
  writeAll(rows: Writes): void {
    for (const [key, value] of rows) {
      this.#check(key, value);
    }
    for (const [key, value] of rows) {
      this.#overlay.set(key, value);
    }
  }

  /** All rows, in the order of keys where the store has one; over lies over them all. */
  scan(over?: Writes): IterableIterator<[KeyText, Buffer]> {
    const top: Layer = new Map();
    for (const layer of [...this.#sent, this.#overlay, over ?? []]) {
      for (const [key, value] of layer) {
        top.set(key, value);
      }
    }
    const stored = this.store.items();
    if (top.size === 0) {
      return stored;
    }
    return this.store.ordered ? merged(stored, top) : chained(stored, top);
  }

  /** Take what was written since the last commit. endCommit follows. */
  beginCommit(): Layer {
    const layer = this.#overlay;
    this.#overlay = new Map();
    this.#sent.push(layer);
    return layer;
  }

  /** Move a layer into the store; without a checkpoint it is as if it had not been taken. */
  endCommit(layer: Layer, checkpoint: string | null): void {
    this.#sent = this.#sent.filter((each) => each !== layer);
    if (checkpoint === null) {
      this.#overlay = new Map([...layer, ...this.#overlay]);
    } else if (layer.size > 0) {
      this.store.applyCommit(layer, checkpoint);
    }
  }

  #check(key: unknown, value: unknown): void {
    if (!this.writable) {
      throw new UsageError(`table '${this.name}' is read-only; only its topic changes it`);
    }
    // A key with more than bytes would be another one in Kafka than here.
    if (typeof key !== "string" || /[\u0100-\uffff]/.test(key)) {
      throw new UsageError(
        `table '${this.name}' takes bytes as latin1 text as keys; call toString("latin1") on them`,
      );
    }
    if (value !== null && !Buffer.isBuffer(value)) {
      throw new UsageError(`table '${this.name}' takes a Buffer or null as value; encode it first`);
    }
  }
}

function* chained(
  stored: Iterable<[KeyText, Buffer]>,
  top: Layer,
): IterableIterator<[KeyText, Buffer]> {
  for (const row of stored) {
    if (!top.has(row[0])) {
      yield row;
    }
  }
  for (const [key, value] of top) {
    if (value !== null) {
      yield [key, value];
    }
  }
}

function* merged(
  stored: Iterable<[KeyText, Buffer]>,
  top: Layer,
): IterableIterator<[KeyText, Buffer]> {
  const keys = [...top.keys()].sort();
  let at = 0;
  const before = function* (end: KeyText | null): IterableIterator<[KeyText, Buffer]> {
    for (let key = keys[at]; key !== undefined && (end === null || key < end); key = keys[at]) {
      at += 1;
      const value = top.get(key) ?? null;
      if (value !== null) {
        yield [key, value];
      }
    }
  };
  for (const row of stored) {
    yield* before(row[0]);
    if (!top.has(row[0])) {
      yield row;
    }
  }
  yield* before(null);
}
