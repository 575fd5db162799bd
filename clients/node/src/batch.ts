/**
 * A batch of records: one data frame as user code sees it.
 *
 * Nothing is made of a record before it is asked for: keyAt and valueAt are views over the frame,
 * prefix sums are added up at the first of them. Batches, not records, are what a program awaits.
 */

import { isAscii } from "node:buffer";
import { apply } from "./apply.js";
import { FrameFlag } from "./codes.js";
import { isNull, starts } from "./columns.js";
import { type Frame, timestampAt, timestamps } from "./frames.js";
import { type Header, parseHeaders } from "./headers.js";
import type { Fence, Task } from "./tasks.js";

/** One record of a batch. */
export interface Row {
  readonly offset: number;
  /** Milliseconds since 1970; undefined when the frame carries none. */
  readonly timestamp: number | undefined;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
}

/** Records of one partition, in order. A null key or value is null, an empty one has no bytes. */
export class Batch {
  readonly task: Task;
  /** The Kafka topic that the records are from. */
  readonly topic: string;
  /** The table's name in a restore event, the topic in a records event. */
  readonly name: string;
  readonly #frame: Frame;
  readonly #fence: Fence;
  /** Keys and values as columns, for who reads them whole. */
  readonly keys: Column;
  readonly values: Column;
  #headerStarts: Uint32Array | undefined;

  constructor(
    frame: Frame,
    task: Task,
    topic: string,
    name: string,
    fence: Fence = { broken: false },
  ) {
    this.task = task;
    this.topic = topic;
    this.name = name;
    this.#frame = frame;
    this.#fence = fence;
    this.keys = new Column(frame.data, frame.keysAt, frame.keyLengths, frame.nullKeys);
    this.values = new Column(frame.data, frame.valuesAt, frame.valueLengths, frame.nullValues);
  }

  /** How many records there are; 0 is a batch, too: it moves the position. */
  get length(): number {
    return this.#frame.count;
  }

  /** Whether the batch's epoch is over: nothing that follows from it can be committed. */
  get stale(): boolean {
    return this.#fence.broken;
  }

  /** The position before the batch. */
  get baseOffset(): number {
    return this.#frame.base;
  }

  /** The position after the batch, across gaps and transaction markers. */
  get nextOffset(): number {
    return this.#frame.next;
  }

  /** What a store is complete up to once it holds this batch. Restore only; null: no change. */
  get checkpoint(): string | null {
    return this.#frame.checkpoint || null;
  }

  /** The stream that it came on. */
  get stream(): number {
    return this.#frame.stream;
  }

  /** Bytes of the frame. */
  get byteLength(): number {
    return this.#frame.data.length;
  }

  /** Whether the broker, not the producer, gave the timestamps. */
  get logAppendTime(): boolean {
    return (this.#frame.flags & FrameFlag.LogAppendTime) !== 0;
  }

  /** All timestamps as they are, any 64-bit number; undefined when the frame has none. */
  get timestamps(): BigInt64Array | undefined {
    return timestamps(this.#frame);
  }

  /**
   * The key of record i, a view over the frame. Who keeps it keeps all of the frame, so copy what
   * is to be kept: keyCopyAt.
   */
  keyAt(i: number): Buffer | null {
    return this.keys.at(i);
  }

  /** The value of record i, a view over the frame as with keyAt. */
  valueAt(i: number): Buffer | null {
    return this.values.at(i);
  }

  /** The key of record i in memory of its own. */
  keyCopyAt(i: number): Buffer | null {
    return copied(this.keys.at(i));
  }

  /** The value of record i in memory of its own. */
  valueCopyAt(i: number): Buffer | null {
    return copied(this.values.at(i));
  }

  /** The key of record i as text of one character for each byte: what a Map has as a key. */
  keyTextAt(i: number): string | null {
    return this.keys.textAt(i);
  }

  /** The offset of record i. */
  offsetAt(i: number): number {
    const { base, count, offsetDeltas } = this.#frame;
    within(i, count);
    return base + (offsetDeltas?.[i] ?? i);
  }

  /**
   * Milliseconds since 1970 of record i; undefined when the frame carries none. One past 2^53, which
   * is no time, is rounded here and exact in timestamps.
   */
  timestampAt(i: number): number | undefined {
    within(i, this.#frame.count);
    return timestampAt(this.#frame, i);
  }

  /** Headers of record i: ordered, repeated keys kept. */
  headersAt(i: number): Header[] {
    const { data, count, headersAt, headerLengths } = this.#frame;
    within(i, count);
    if (headerLengths === undefined) {
      return [];
    }
    this.#headerStarts ??= starts(headerLengths);
    const from = headersAt + (this.#headerStarts[i] ?? 0);
    return parseHeaders(data.subarray(from, from + (headerLengths[i] ?? 0)));
  }

  /** Records as objects, for comfort; asking by number is faster. */
  *[Symbol.iterator](): IterableIterator<Row> {
    for (let i = 0; i < this.length; i++) {
      yield {
        offset: this.offsetAt(i),
        timestamp: this.timestampAt(i),
        key: this.keyAt(i),
        value: this.valueAt(i),
      };
    }
  }

  /**
   * Bring a map up to date: set each key, as keyTextAt has it, to its last value, remove it at a
   * tombstone. Records without a key say nothing about a table and are passed over. Values are
   * copies: a table lives longer than a frame.
   */
  applyTo(table: Map<string, Buffer>): void {
    apply(this.#frame, table);
  }
}

/** A part of a text that is as long keeps all of it in memory; V8 copies shorter ones. */
const SHORT = 13;

/** Keys or values: a blob, and where each of them lies in it. */
export class Column {
  readonly #data: Buffer;
  readonly #blob: number;
  readonly #lengths: Int32Array;
  readonly #nulls: Uint8Array | undefined;
  #starts: Uint32Array | undefined;

  constructor(data: Buffer, blob: number, lengths: Int32Array, nulls: Uint8Array | undefined) {
    this.#data = data;
    this.#blob = blob;
    this.#lengths = lengths;
    this.#nulls = nulls;
  }

  get length(): number {
    return this.#lengths.length;
  }

  /** Whether all of them are ASCII: each is the same text in latin1 and in UTF-8 then. */
  get isAscii(): boolean {
    return isAscii(this.#data.subarray(this.#blob, this.#end()));
  }

  at(i: number): Buffer | null {
    if (this.#isNull(i)) {
      return null;
    }
    const from = this.#start(i);
    return this.#data.subarray(from, from + (this.#lengths[i] ?? 0));
  }

  textAt(i: number): string | null {
    if (this.#isNull(i)) {
      return null;
    }
    const from = this.#start(i);
    return this.#data.toString("latin1", from, from + (this.#lengths[i] ?? 0));
  }

  /** All of them as textAt has them. */
  texts(): (string | null)[] {
    const count = this.#lengths.length;
    const from = this.#blob;
    const end = this.#end();
    // Short texts are cut out of one, which takes no call out of JavaScript for each.
    const whole = end - from < SHORT * count ? this.#data.toString("latin1", from, end) : "";
    const found: (string | null)[] = [];
    for (let i = 0, at = from; i < count; i++) {
      const size = this.#lengths[i] ?? 0;
      if (isNull(this.#nulls, i)) {
        found.push(null);
      } else if (whole !== "" && size < SHORT) {
        found.push(whole.slice(at - from, at - from + size));
      } else {
        found.push(this.#data.toString("latin1", at, at + size));
      }
      at += size;
    }
    return found;
  }

  /** Where the blob ends. */
  #end(): number {
    const last = this.#lengths.length - 1;
    return last < 0 ? this.#blob : this.#start(last) + (this.#lengths[last] ?? 0);
  }

  #isNull(i: number): boolean {
    within(i, this.#lengths.length);
    return isNull(this.#nulls, i);
  }

  #start(i: number): number {
    this.#starts ??= starts(this.#lengths);
    return this.#blob + (this.#starts[i] ?? 0);
  }
}

function copied(view: Buffer | null): Buffer | null {
  return view === null ? null : Buffer.from(view);
}

/** Without it a record that is not there would look like one that is empty. */
function within(i: number, count: number): void {
  if (i >>> 0 !== i || i >= count) {
    throw new RangeError(`there is no record ${i} among ${count}`);
  }
}
