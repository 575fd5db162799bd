/**
 * A table as one call of a handler has it.
 *
 * INVARIANT: what a handler has left running reads and writes nothing in the unit of another call:
 * Promise.all() rejects with the first error, and what was beside it goes on.
 */

import type { Rows } from "./rows.js";
import type { TableRows } from "./table-rows.js";

/** Rows for as long as the call goes on; look() throws when it has ended. */
export class UnitRows<K, V, Missing> implements TableRows<K, V, Missing> {
  readonly #rows: Rows<K, V, Missing>;
  readonly #look: () => void;

  constructor(rows: Rows<K, V, Missing>, look: () => void) {
    this.#rows = rows;
    this.#look = look;
  }

  get(key: K): V | Missing {
    this.#look();
    return this.#rows.get(key);
  }

  has(key: K | null): boolean {
    this.#look();
    return this.#rows.has(key);
  }

  set(key: K, value: V): this {
    this.#look();
    this.#rows.set(key, value);
    return this;
  }

  delete(key: K): boolean {
    this.#look();
    return this.#rows.delete(key);
  }

  clear(): void {
    this.#look();
    this.#rows.clear();
  }

  get size(): number {
    this.#look();
    return this.#rows.size;
  }

  keys(): IterableIterator<K> {
    return this.#walk(this.#rows.keys());
  }

  values(): IterableIterator<V> {
    return this.#walk(this.#rows.values());
  }

  entries(): IterableIterator<[K, V]> {
    return this.#walk(this.#rows.entries());
  }

  forEach(each: (value: V, key: K) => void): void {
    this.#look();
    this.#rows.forEach(each);
  }

  [Symbol.iterator](): IterableIterator<[K, V]> {
    return this.entries();
  }

  *#walk<T>(rows: Iterator<T>): Generator<T, void, undefined> {
    for (;;) {
      this.#look();
      const next = rows.next();
      if (next.done) {
        return;
      }
      yield next.value;
    }
  }
}
