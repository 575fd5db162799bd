/**
 * Typed records: what handlers get.
 *
 * A batch is decoded before its handler sees it, a column at a time. Records that do not decode are
 * told apart one by one; what happens to them is the policy's to say.
 */

import { inspect } from "node:util";
import type { Column, Batch as RawBatch } from "../batch.js";
import { SerdeError } from "../errors.js";
import type { Header } from "../headers.js";
import { bytes, str } from "../serdes/scalars.js";
import type { Serde } from "../serdes/serde.js";
import { isMistake } from "./context.js";
import type { Topic } from "./declared.js";
import { describe } from "./policy.js";

/** One record. A null key or value is null. */
export interface KafkaRecord<K, V> {
  readonly key: K | null;
  readonly value: V | null;
  readonly offset: number;
  /** Milliseconds since 1970; undefined when the frame carries none. */
  readonly timestamp: number | undefined;
  /** In order; a name may come more than once. */
  readonly headers: readonly Header[];
  readonly topic: string;
  readonly partition: number;
}

/** A decoded column. What cannot fail is decoded when somebody looks at it. */
type Values<T> = () => readonly (T | null)[];

/**
 * Records of one partition of one topic, in order. A null key or value is null.
 *
 * Records that did not decode and were skipped are not in it.
 */
export class Batch<K, V> {
  readonly length: number;
  readonly #raw: RawBatch;
  #keys: readonly (K | null)[] | Values<K>;
  #values: readonly (V | null)[] | Values<V>;
  /** Where its records are in the frame; undefined: all of them are in it. */
  readonly #rows: readonly number[] | undefined;

  constructor(
    raw: RawBatch,
    keys: readonly (K | null)[] | Values<K>,
    values: readonly (V | null)[] | Values<V>,
    rows?: readonly number[],
  ) {
    this.length = rows?.length ?? raw.length;
    this.#raw = raw;
    this.#keys = keys;
    this.#values = values;
    this.#rows = rows;
  }

  /** The key of each record. */
  get keys(): readonly (K | null)[] {
    if (typeof this.#keys === "function") {
      this.#keys = this.#keys();
    }
    return this.#keys;
  }

  /** The value of each record. */
  get values(): readonly (V | null)[] {
    if (typeof this.#values === "function") {
      this.#values = this.#values();
    }
    return this.#values;
  }

  /** The source topic. */
  get topic(): string {
    return this.#raw.topic;
  }

  /** The partition, which is the task's. */
  get partition(): number {
    return this.#raw.task.partition;
  }

  /** The position before the batch. */
  get baseOffset(): number {
    return this.#raw.baseOffset;
  }

  /** The position after the batch, across gaps. */
  get nextOffset(): number {
    return this.#raw.nextOffset;
  }

  /** Whether the task has gone: nothing that follows from the batch can be committed. */
  get stale(): boolean {
    return this.#raw.stale;
  }

  /** Record i. */
  at(i: number): KafkaRecord<K, V> {
    if (i >>> 0 !== i || i >= this.length) {
      throw new RangeError(`there is no record ${i} among ${this.length}`);
    }
    return new BatchRecord(this, i);
  }

  /** The offset of record i. */
  offsetAt(i: number): number {
    return this.#raw.offsetAt(this.#row(i));
  }

  /** Milliseconds since 1970 of record i; undefined when the frame carries none. */
  timestampAt(i: number): number | undefined {
    return this.#raw.timestampAt(this.#row(i));
  }

  /** Headers of record i: ordered, repeated names kept. */
  headersAt(i: number): readonly Header[] {
    return this.#raw.headersAt(this.#row(i));
  }

  /** Pairs of key and value, in order. */
  items(): IterableIterator<[key: K | null, value: V | null]> {
    const { keys, values } = this;
    return new Walk(this.length, (i) => [keys[i] as K | null, values[i] as V | null]);
  }

  /** The records one by one. */
  [Symbol.iterator](): IterableIterator<KafkaRecord<K, V>> {
    return new Walk(this.length, (i) => new BatchRecord(this, i));
  }

  #row(i: number): number {
    return this.#rows === undefined ? i : (this.#rows[i] ?? -1); // which the frame refuses
  }
}

/** An iterator as fast as a loop, which a generator is not. */
class Walk<T> implements IterableIterator<T> {
  readonly #length: number;
  readonly #at: (i: number) => T;
  #i = 0;

  constructor(length: number, at: (i: number) => T) {
    this.#length = length;
    this.#at = at;
  }

  next(): IteratorResult<T, undefined> {
    return this.#i < this.#length
      ? { done: false, value: this.#at(this.#i++) }
      : { done: true, value: undefined };
  }

  [Symbol.iterator](): this {
    return this;
  }
}

/** Nothing is made of a record before it is asked for. */
class BatchRecord<K, V> implements KafkaRecord<K, V> {
  readonly #batch: Batch<K, V>;
  readonly #i: number;

  constructor(batch: Batch<K, V>, i: number) {
    this.#batch = batch;
    this.#i = i;
  }

  get key(): K | null {
    return this.#batch.keys[this.#i] as K | null;
  }

  get value(): V | null {
    return this.#batch.values[this.#i] as V | null;
  }

  get offset(): number {
    return this.#batch.offsetAt(this.#i);
  }

  get timestamp(): number | undefined {
    return this.#batch.timestampAt(this.#i);
  }

  get headers(): readonly Header[] {
    return this.#batch.headersAt(this.#i);
  }

  get topic(): string {
    return this.#batch.topic;
  }

  get partition(): number {
    return this.#batch.partition;
  }

  toJSON(): KafkaRecord<K, V> {
    const { key, value, offset, timestamp, headers, topic, partition } = this;
    return { key, value, offset, timestamp, headers, topic, partition };
  }

  /** For console.log. */
  [inspect.custom](): KafkaRecord<K, V> {
    return this.toJSON();
  }
}

/** A key or value did not decode; cause is what the serde has thrown. */
export class Undecodable extends SerdeError {
  constructor(text: string, cause: unknown) {
    super(text, "undecodable", { cause });
  }
}

export interface Decoded<K, V> {
  readonly batch: Batch<K, V>;
  /** Why records of the frame are not in the batch, by row. */
  readonly bad: ReadonlyMap<number, Undecodable>;
}

const NONE: ReadonlyMap<number, Undecodable> = new Map();

/**
 * Decode a batch. Records that do not decode are left out; why is told by row. Throws for a mistake
 * in the program itself.
 */
export function decode<K, V>(raw: RawBatch, topic: Topic<K, V>): Decoded<K, V> {
  try {
    const keys = column(topic.key, raw.keys);
    const values = column(topic.value, raw.values);
    return { batch: new Batch(raw, keys, values), bad: NONE };
  } catch {
    return oneByOne(raw, topic);
  }
}

/** Keep the records before a row of the frame. bad: the rows that are not in the batch. */
export function cut<K, V>(
  raw: RawBatch,
  batch: Batch<K, V>,
  bad: ReadonlyMap<number, unknown>,
  row: number,
): Batch<K, V> {
  const rows = Array.from({ length: row }, (_, i) => i).filter((i) => !bad.has(i));
  return new Batch(raw, batch.keys.slice(0, rows.length), batch.values.slice(0, rows.length), rows);
}

function oneByOne<K, V>(raw: RawBatch, topic: Topic<K, V>): Decoded<K, V> {
  const bad = new Map<number, Undecodable>();
  const keys: (K | null)[] = [];
  const values: (V | null)[] = [];
  const rows: number[] = [];
  for (let row = 0; row < raw.length; row++) {
    try {
      const key = decoded("key", topic.key, raw.keyAt(row));
      const value = decoded("value", topic.value, raw.valueAt(row));
      keys.push(key);
      values.push(value);
      rows.push(row);
    } catch (error) {
      if (isMistake(error)) {
        throw error;
      }
      bad.set(row, error as Undecodable);
    }
  }
  return { batch: new Batch(raw, keys, values, rows), bad };
}

function column<T>(serde: Serde<T>, from: Column): Values<T> | (T | null)[] {
  if ((serde as unknown) === bytes()) {
    return () => all(from, serde);
  }
  if ((serde as unknown) === str() && from.isAscii) {
    return () => from.texts() as (T | null)[];
  }
  return all(from, serde);
}

function all<T>(from: Column, serde: Serde<T>): (T | null)[] {
  const found: (T | null)[] = [];
  for (let i = 0; i < from.length; i++) {
    const data = from.at(i);
    found.push(data === null ? null : serde.decode(data));
  }
  return found;
}

function decoded<T>(what: string, serde: Serde<T>, data: Buffer | null): T | null {
  try {
    return data === null ? null : serde.decode(data);
  } catch (error) {
    throw new Undecodable(`its ${what} does not decode: ${describe(error)}`, error);
  }
}
