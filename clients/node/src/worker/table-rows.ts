/** Tables as handlers see them: like Maps, of typed keys and values. */

/** A table that cannot be written. A key that is null is in no table: records may have none. */
export interface ReadonlyTableRows<K, V, Missing = undefined> {
  /** The value of a key. Values are good until the handler returns. */
  get(key: K): V | Missing;
  has(key: K | null): boolean;
  /** How many rows there are. It reads them all. */
  readonly size: number;
  keys(): IterableIterator<K>;
  values(): IterableIterator<V>;
  /** All rows, in the order of the keys' bytes where the store has an order. */
  entries(): IterableIterator<[K, V]>;
  forEach(each: (value: V, key: K) => void): void;
  [Symbol.iterator](): IterableIterator<[K, V]>;
}

/**
 * A table of the task's partition, like a Map. Reads see what was written.
 *
 * With a default, get() of a key without row gives a new default value, which becomes a row once it
 * is changed or set; has() and the walks do not count it.
 *
 * Throws SerdeError for a key or value that does not encode or decode (a value that does not encode
 * at the end of the handler's call at the latest), StoreError, after which the task is opened anew, and
 * UsageError once the handler's call has ended: what it has left running is in no unit.
 */
export interface TableRows<K, V, Missing = undefined> extends ReadonlyTableRows<K, V, Missing> {
  /** Set a row. null is no value: delete() removes a row. */
  set(key: K, value: V): this;
  /** Remove a row; whether there was one. */
  delete(key: K): boolean;
  /** Remove all rows. It reads them all. */
  clear(): void;
}
