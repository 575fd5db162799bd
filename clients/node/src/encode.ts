/**
 * Columns to frames. Pure; the counterpart of frames.ts.
 *
 * Flow: a commit's records of one stream -> runs that fit the target -> encode each run. A record
 * that is larger than the target travels alone.
 */

import { Code, FrameFlag, FrameKind } from "./codes.js";
import { CommitRejected } from "./errors.js";
import { HEADER_SIZE, VERSION } from "./frames.js";
import { type HeaderInit, packHeaders } from "./headers.js";

export const DEFAULT_TARGET = 256 << 10;

/**
 * What a record takes in a frame beside key, value and headers: 8 bytes for the two lengths, 8 for
 * a timestamp, 8 for headers' length and count, a byte for null bits.
 */
export const PLAIN = 25;

/** A key or value: null is not empty. */
export type Bytes = Uint8Array | null;

/** A row of a table to write. A null value removes the key. */
export type Pair = readonly [key: Bytes, value: Bytes];

/** A record to write to a topic. */
export interface OutputRecord {
  readonly key: Bytes;
  readonly value: Bytes;
  /** Ordered, and may repeat. */
  readonly headers?: readonly HeaderInit[] | undefined;
  /** Milliseconds; without one it is the time at which the record is sent. */
  readonly timestamp?: number | undefined;
}

/** What may be written to a stream: a row, or a record with headers and a timestamp. */
export type RecordInit = Pair | OutputRecord;

/** What encode makes a frame of. Columns are all of one length. */
export interface Columns {
  readonly kind: FrameKind;
  readonly stream: number;
  readonly epoch: number;
  /** In a writes frame the commit's id. */
  readonly base: number;
  /** In a writes frame 0. */
  readonly next: number;
  readonly keys: readonly Bytes[];
  readonly values: readonly Bytes[];
  readonly timestamps?: readonly (number | bigint)[] | undefined;
  readonly logAppendTime?: boolean | undefined;
  /** Only when they have gaps. */
  readonly offsets?: readonly number[] | undefined;
  readonly headers?: readonly (readonly HeaderInit[])[] | undefined;
  readonly checkpoint?: string | undefined;
}

/** Build one frame. */
export function encode(columns: Columns): Buffer {
  const { keys, values, timestamps, offsets, headers, base } = columns;
  const count = keys.length;
  const packed = headers?.map(packHeaders);
  const checkpoint = Buffer.from(columns.checkpoint ?? "", "latin1");
  const nullValues = values.includes(null);
  const nullKeys = keys.includes(null);
  const bits = (count + 7) >>> 3;
  const sizes = [total(keys), total(values), total(packed ?? [])] as const;
  const size =
    HEADER_SIZE +
    count * (8 + (timestamps ? 8 : 0) + (offsets ? 4 : 0) + (packed ? 4 : 0)) +
    bits * (Number(nullValues) + Number(nullKeys)) +
    sizes[0] +
    sizes[1] +
    sizes[2] +
    checkpoint.length;
  // Every byte is written below, so that the memory need not be cleared first.
  const frame = Buffer.allocUnsafe(size);
  const flags =
    (timestamps
      ? FrameFlag.Timestamps | (columns.logAppendTime ? FrameFlag.LogAppendTime : 0)
      : 0) |
    (offsets ? FrameFlag.OffsetDeltas : 0) |
    (packed ? FrameFlag.Headers : 0) |
    (nullValues ? FrameFlag.NullValues : 0) |
    (nullKeys ? FrameFlag.NullKeys : 0);
  frame.writeUInt8(VERSION, 0);
  frame.writeUInt8(columns.kind, 1);
  frame.writeUInt16LE(flags, 2);
  frame.writeUInt32LE(columns.stream, 4);
  frame.writeUInt32LE(columns.epoch, 8);
  frame.writeUInt32LE(count, 12);
  frame.writeBigInt64LE(BigInt(base), 16);
  frame.writeBigInt64LE(BigInt(columns.next), 24);
  frame.writeUInt32LE(sizes[0], 32);
  frame.writeUInt32LE(sizes[1], 36);
  frame.writeUInt32LE(sizes[2], 40);
  frame.writeUInt32LE(checkpoint.length, 44);
  let at = writeLengths(frame, HEADER_SIZE, keys);
  at = writeLengths(frame, at, values);
  for (const timestamp of timestamps ?? []) {
    at = frame.writeBigInt64LE(BigInt(timestamp), at);
  }
  for (const offset of offsets ?? []) {
    at = frame.writeInt32LE(offset - base, at);
  }
  at = writeLengths(frame, at, packed ?? []);
  at = nullValues ? writeBits(frame, at, values) : at;
  at = nullKeys ? writeBits(frame, at, keys) : at;
  for (const blob of [keys, values, packed ?? [], [checkpoint]]) {
    at = writeBlob(frame, at, blob);
  }
  return frame;
}

/**
 * Build the writes frames of one stream in one commit. largest is the largest frame that the sidecar
 * takes; to names the stream in errors. Throws CommitRejected.
 */
export function writes(
  stream: number,
  epoch: number,
  commit: number,
  records: Iterable<RecordInit>,
  largest: number,
  to: string,
): Buffer[] {
  const rows = Array.from(records, asRecord);
  const sizes = rows.map((row) => {
    checkBytes(row.key, to);
    checkBytes(row.value, to);
    return sizeOf(row);
  });
  const now = Date.now();
  return runs(sizes, Math.min(DEFAULT_TARGET, largest), largest, to).map(([from, end]) => {
    const run = rows.slice(from, end);
    const timed = run.some((row) => row.timestamp !== undefined);
    const headed = run.some((row) => row.headers !== undefined && row.headers.length > 0);
    return encode({
      kind: FrameKind.Writes,
      stream,
      epoch,
      base: commit,
      next: 0,
      keys: run.map((row) => row.key),
      values: run.map((row) => row.value),
      timestamps: timed ? run.map((row) => row.timestamp ?? now) : undefined,
      headers: headed ? run.map((row) => row.headers ?? []) : undefined,
    });
  });
}

/** Cut records into runs whose frames stay within the target, or hold one record. */
export function cut(
  records: readonly OutputRecord[],
  target: number,
  largest: number,
  to: string,
): OutputRecord[][] {
  return runs(records.map(sizeOf), target, largest, to).map(([from, end]) =>
    records.slice(from, end),
  );
}

function runs(
  sizes: readonly number[],
  target: number,
  largest: number,
  to: string,
): (readonly [from: number, end: number])[] {
  const found: [number, number][] = [];
  let from = 0;
  let size = HEADER_SIZE;
  sizes.forEach((each, i) => {
    if (HEADER_SIZE + each > largest) {
      throw new CommitRejected(
        `a record of ${each} bytes for ${to} is larger than the ${largest} bytes that the sidecar ` +
          "takes in one frame; make it smaller",
        Code.RecordTooLarge,
      );
    }
    if (i > from && size + each > target) {
      found.push([from, i]);
      from = i;
      size = HEADER_SIZE;
    }
    size += each;
  });
  if (from < sizes.length) {
    found.push([from, sizes.length]);
  }
  return found;
}

function asRecord(given: RecordInit): OutputRecord {
  return isPair(given) ? { key: given[0], value: given[1] } : given;
}

function isPair(given: RecordInit): given is Pair {
  return Array.isArray(given);
}

/** Programs in JavaScript have no compiler to tell them. */
function checkBytes(given: unknown, to: string): void {
  if (given !== null && !(given instanceof Uint8Array)) {
    throw new CommitRejected(
      `a record for ${to} has a ${typeof given} where bytes belong; encode it`,
      "usage",
    );
  }
}

function sizeOf(row: OutputRecord): number {
  let size = PLAIN + (row.key?.length ?? 0) + (row.value?.length ?? 0);
  for (const [key, value] of row.headers ?? []) {
    size += 8 + 4 * key.length + (value?.length ?? 0);
  }
  return size;
}

function total(parts: readonly Bytes[]): number {
  return parts.reduce((sum, part) => sum + (part?.length ?? 0), 0);
}

function writeLengths(frame: Buffer, from: number, parts: readonly Bytes[]): number {
  let at = from;
  for (const part of parts) {
    at = frame.writeInt32LE(part?.length ?? 0, at);
  }
  return at;
}

function writeBits(frame: Buffer, from: number, parts: readonly Bytes[]): number {
  const end = from + ((parts.length + 7) >>> 3);
  const bits = frame.fill(0, from, end).subarray(from, end);
  parts.forEach((part, i) => {
    if (part === null) {
      bits[i >>> 3] = (bits[i >>> 3] ?? 0) | (1 << (i & 7));
    }
  });
  return end;
}

function writeBlob(frame: Buffer, from: number, parts: readonly Bytes[]): number {
  let at = from;
  for (const part of parts) {
    if (part !== null) {
      frame.set(part, at);
      at += part.length;
    }
  }
  return at;
}
