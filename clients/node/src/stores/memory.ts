/** Tables in a Map: nothing survives the process, but a reconnect finds them again. */

import type { Batch } from "../batch.js";
import type { Task } from "../tasks.js";
import type { KeyText, Store, Stores, Writes } from "./base.js";

/** A table in a Map. */
export class MemoryStore implements Store {
  readonly ordered: boolean = false;
  readonly rows = new Map<KeyText, Buffer>();
  #checkpoint: string | null = null;

  get size(): number {
    return this.rows.size;
  }

  checkpoint(): string | null {
    return this.#checkpoint;
  }

  get(key: KeyText): Buffer | null {
    return this.rows.get(key) ?? null;
  }

  /** See Store. Takes a list of the keys, and the values as it comes to them. */
  *items(start?: KeyText, stop?: KeyText): IterableIterator<[KeyText, Buffer]> {
    for (const key of [...this.rows.keys()]) {
      if ((start === undefined || key >= start) && (stop === undefined || key < stop)) {
        const value = this.rows.get(key);
        if (value !== undefined) {
          yield [key, value];
        }
      }
    }
  }

  apply(batch: Batch): void {
    batch.applyTo(this.rows);
    this.#checkpoint = batch.checkpoint ?? this.#checkpoint;
  }

  applyCommit(rows: Writes, checkpoint: string): void {
    for (const [key, value] of rows) {
      if (value === null) {
        this.rows.delete(key);
      } else {
        this.rows.set(key, value);
      }
    }
    this.#checkpoint = checkpoint;
  }

  flush(): void {}

  wipe(): void {
    this.rows.clear();
    this.#checkpoint = null;
  }

  close(): void {}
}

/** Keeps the tables of this process by topic and partition. */
export class MemoryStores implements Stores {
  readonly #stores = new Map<string, MemoryStore>();

  open(task: Task, table: string): MemoryStore {
    const key = JSON.stringify([table, task.tables.get(table)?.topic, task.partition]);
    let store = this.#stores.get(key);
    if (store === undefined) {
      store = new MemoryStore();
      this.#stores.set(key, store);
    }
    return store;
  }
}
