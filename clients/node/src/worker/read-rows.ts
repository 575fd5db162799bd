/** Read-only tables, of one partition or of several. Each read decodes anew. */

import { UsageError } from "../errors.js";
import type { KeyText, Store } from "../stores/base.js";
import type { Keyed } from "./declared.js";
import { type Keys, keysOf } from "./keys.js";
import { badValue } from "./rows.js";
import type { ReadonlyTableRows } from "./table-rows.js";

/** Where read-only rows come from: one partition. */
export interface Source {
  find(key: KeyText): Buffer | null;
  scan(): Iterable<[KeyText, Buffer]>;
}

/** The rows of a store alone, without what waits for its commit. */
export class StoreRows implements Source {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  find(key: KeyText): Buffer | null {
    return this.#store.get(key);
  }

  scan(): Iterable<[KeyText, Buffer]> {
    return this.#store.items();
  }
}

/** Throws SerdeError and StoreError as Rows does. */
export class ReadRows<K, V> implements ReadonlyTableRows<K, V> {
  readonly #table: Keyed<K, V>;
  readonly #keys: Keys<K>;
  readonly #sources: () => readonly Source[];

  constructor(table: Keyed<K, V>, sources: () => readonly Source[]) {
    this.#table = table;
    this.#keys = keysOf(table.name, table.key);
    this.#sources = sources;
  }

  get(key: K): V | undefined {
    const raw = this.#keys.toText(key);
    const data = this.#find(raw);
    return data === null ? undefined : this.#decode(raw, data);
  }

  has(key: K | null): boolean {
    return key !== null && key !== undefined && this.#find(this.#keys.toText(key)) !== null;
  }

  get size(): number {
    let size = 0;
    for (const _ of this.#scan()) {
      size++;
    }
    return size;
  }

  *keys(): Generator<K, void, undefined> {
    for (const [raw] of this.#scan()) {
      yield this.#keys.ofText(raw);
    }
  }

  *values(): Generator<V, void, undefined> {
    for (const [raw, data] of this.#scan()) {
      yield this.#decode(raw, data);
    }
  }

  *entries(): Generator<[K, V], void, undefined> {
    for (const [raw, data] of this.#scan()) {
      yield [this.#keys.ofText(raw), this.#decode(raw, data)];
    }
  }

  forEach(each: (value: V, key: K) => void): void {
    for (const [key, value] of this.entries()) {
      each(value, key);
    }
  }

  [Symbol.iterator](): Generator<[K, V], void, undefined> {
    return this.entries();
  }

  // For those who have no compiler to tell them.

  set(): never {
    return this.#refuse();
  }

  delete(): never {
    return this.#refuse();
  }

  clear(): never {
    return this.#refuse();
  }

  #refuse(): never {
    throw new UsageError(`table '${this.#table.name}' is read-only here`, "read_only");
  }

  #find(raw: KeyText): Buffer | null {
    for (const source of this.#sources()) {
      const data = source.find(raw);
      if (data !== null) {
        return data;
      }
    }
    return null;
  }

  *#scan(): Generator<[KeyText, Buffer], void, undefined> {
    for (const source of this.#sources()) {
      yield* source.scan();
    }
  }

  #decode(raw: KeyText, data: Buffer): V {
    try {
      return this.#table.value.decode(data);
    } catch (error) {
      throw badValue(this.#table.name, raw, error);
    }
  }
}
