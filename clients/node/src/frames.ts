/**
 * The columnar data frame: bytes to header and columns. Pure; encode.ts is the counterpart.
 *
 * A frame is one binary message: a header of 48 bytes, columns of fixed width, then blobs. The
 * layout is in spec/PROTOCOL.md. Columns are views over what came; they are copied only where the
 * message lies askew in its ArrayBuffer, which small messages of a socket do.
 *
 * Parsing checks everything that reading relies on, so that a hostile frame ends in FrameError here
 * and nowhere later:
 *
 * Columns are walked by number: an iterator of a typed array takes ten times as long.
 *
 * INVARIANT: after parse() every length is >= 0 and the lengths of a column add up to its blob, so
 * that no read of a column can pass its end.
 */

import { FrameFlag, FrameKind } from "./codes.js";
import { int32s, int64s, isNull } from "./columns.js";
import { FrameError } from "./errors.js";
import { checkHeaders } from "./headers.js";

export const VERSION = 1;
export const HEADER_SIZE = 48;
export const MAX_CHECKPOINT = 128;

const ALL_FLAGS = Object.values(FrameFlag).reduce((all, flag) => all | flag, 0);
const WRITES_FLAGS = ALL_FLAGS & ~(FrameFlag.LogAppendTime | FrameFlag.OffsetDeltas);

/** A valid frame. What ends in At is a position in data. */
export interface Frame {
  readonly data: Buffer;
  readonly kind: FrameKind;
  readonly flags: number;
  readonly stream: number;
  readonly epoch: number;
  readonly count: number;
  /** The position before the frame; in a writes frame the commit's id. */
  readonly base: number;
  /** The position after the frame; in a writes frame 0. */
  readonly next: number;
  readonly keyLengths: Int32Array;
  readonly valueLengths: Int32Array;
  /** Undefined when no record has headers, and so with the columns below. */
  readonly headerLengths: Int32Array | undefined;
  readonly timestampsAt: number | undefined;
  /** Offsets less base. Undefined: they have no gaps. */
  readonly offsetDeltas: Int32Array | undefined;
  /** A bit for each record, lowest first. */
  readonly nullValues: Uint8Array | undefined;
  readonly nullKeys: Uint8Array | undefined;
  readonly keysAt: number;
  readonly valuesAt: number;
  readonly headersAt: number;
  /** Empty when the frame has none. */
  readonly checkpoint: string;
}

/** Check a whole frame. Throws FrameError for anything that the layout does not allow. */
export function parse(bytes: Uint8Array): Frame {
  const data = asBuffer(bytes);
  const header = parseHeader(data);
  const { kind, flags, count, keys, values, headers, base, next } = header;
  // Sizes are at most 32 bits each, so their sum is exact.
  const bits = (count + 7) >>> 3;
  let at = HEADER_SIZE;
  const column = (width: number) => {
    const from = at;
    at += width;
    return from;
  };
  const optional = (flag: FrameFlag, width: number) => (flags & flag ? column(width) : -1);
  const keyLengthsAt = column(4 * count);
  const valueLengthsAt = column(4 * count);
  const timestampsAt = optional(FrameFlag.Timestamps, 8 * count);
  const deltasAt = optional(FrameFlag.OffsetDeltas, 4 * count);
  const headerLengthsAt = optional(FrameFlag.Headers, 4 * count);
  const nullValuesAt = optional(FrameFlag.NullValues, bits);
  const nullKeysAt = optional(FrameFlag.NullKeys, bits);
  const keysAt = column(keys);
  const valuesAt = column(values);
  const headersAt = column(headers);
  const checkpointAt = column(header.checkpoint);
  if (at !== data.length) {
    throw new FrameError(`${data.length} bytes came, the header says ${at}`, "size");
  }

  const keyLengths = lengths(data, keyLengthsAt, count, keys, "key");
  const valueLengths = lengths(data, valueLengthsAt, count, values, "value");
  const offsetDeltas = deltasAt < 0 ? undefined : int32s(data, deltasAt, count);
  let headerLengths: Int32Array | undefined;
  if (headerLengthsAt >= 0) {
    headerLengths = lengths(data, headerLengthsAt, count, headers, "header");
    let start = headersAt;
    for (let i = 0; i < count; i++) {
      const end = start + (headerLengths[i] ?? 0);
      checkHeaders(data, start, end);
      start = end;
    }
  }
  const nullValues = nulls(data, nullValuesAt, count, valueLengths);
  const nullKeys = nulls(data, nullKeysAt, count, keyLengths);
  if (kind !== FrameKind.Writes) {
    checkOffsets(offsetDeltas, count, next - base);
  }
  const checkpoint = data.toString("latin1", checkpointAt, at);
  if (/[^ -~]/.test(checkpoint)) {
    throw new FrameError("the checkpoint is not printable ASCII", "checkpoint");
  }
  return {
    data,
    kind,
    flags,
    stream: header.stream,
    epoch: header.epoch,
    count,
    base,
    next,
    keyLengths,
    valueLengths,
    headerLengths,
    timestampsAt: timestampsAt < 0 ? undefined : timestampsAt,
    offsetDeltas,
    nullValues,
    nullKeys,
    keysAt,
    valuesAt,
    headersAt,
    checkpoint,
  };
}

interface Header {
  readonly kind: FrameKind;
  readonly flags: number;
  readonly stream: number;
  readonly epoch: number;
  readonly count: number;
  readonly base: number;
  readonly next: number;
  readonly keys: number;
  readonly values: number;
  readonly headers: number;
  readonly checkpoint: number;
}

function parseHeader(data: Buffer): Header {
  if (data.length < HEADER_SIZE) {
    throw new FrameError(`${data.length} bytes are shorter than a header`, "short");
  }
  const version = data.readUInt8(0);
  if (version !== VERSION) {
    throw new FrameError(`version ${version} is not known`, "version");
  }
  const kind = data.readUInt8(1);
  const [stream, epoch] = [data.readUInt32LE(4), data.readUInt32LE(8)];
  if (stream === 0 || epoch === 0) {
    throw new FrameError(`stream ${stream}, epoch ${epoch}: they begin at 1`, "stream");
  }
  const [base, next] = [position(data, 16), position(data, 24)];
  if (kind === FrameKind.Writes) {
    if (base < 1 || next !== 0) {
      throw new FrameError(`commit id ${base}, next offset ${next}`, "offset");
    }
  } else if (kind !== FrameKind.Records && kind !== FrameKind.Restore) {
    throw new FrameError(`kind ${kind} is not known`, "kind");
  } else if (base > next) {
    throw new FrameError(`base offset ${base}, next offset ${next}`, "offset");
  }
  const flags = data.readUInt16LE(2);
  const headers = data.readUInt32LE(40);
  const checkpoint = data.readUInt32LE(44);
  checkFlags(kind, flags, headers, checkpoint);
  return {
    kind,
    flags,
    stream,
    epoch,
    count: data.readUInt32LE(12),
    base,
    next,
    keys: data.readUInt32LE(32),
    values: data.readUInt32LE(36),
    headers,
    checkpoint,
  };
}

function checkFlags(kind: FrameKind, flags: number, headers: number, checkpoint: number): void {
  const wrong = flags & ~(kind === FrameKind.Writes ? WRITES_FLAGS : ALL_FLAGS);
  if (wrong) {
    throw new FrameError(`flags 0x${wrong.toString(16)} are not allowed`, "flags");
  }
  if (flags & FrameFlag.LogAppendTime && !(flags & FrameFlag.Timestamps)) {
    throw new FrameError("LogAppendTime without timestamps", "flags");
  }
  if (headers > 0 && !(flags & FrameFlag.Headers)) {
    throw new FrameError("header bytes without the headers flag", "size");
  }
  if (checkpoint > MAX_CHECKPOINT || (checkpoint > 0 && kind !== FrameKind.Restore)) {
    throw new FrameError(`a checkpoint of ${checkpoint} bytes is not allowed`, "checkpoint");
  }
}

/** A position or commit id: at most 2^53-1, so that a number holds it. */
function position(data: Buffer, at: number): number {
  const high = data.readInt32LE(at + 4);
  if (high < 0 || high >= 0x200000) {
    throw new FrameError(`offset ${data.readBigInt64LE(at)} is not from 0 to 2^53-1`, "offset");
  }
  return high * 0x100000000 + data.readUInt32LE(at);
}

function lengths(data: Buffer, at: number, count: number, total: number, what: string): Int32Array {
  const column = int32s(data, at, count);
  let sum = 0;
  let signs = 0;
  for (let i = 0; i < count; i++) {
    const length = column[i] ?? 0;
    sum += length;
    signs |= length;
  }
  if (signs < 0) {
    throw new FrameError(`a negative ${what} length`, "length");
  }
  if (sum !== total) {
    throw new FrameError(`${what} lengths do not add up to ${total}`, "length");
  }
  return column;
}

function nulls(data: Buffer, at: number, count: number, of: Int32Array): Uint8Array | undefined {
  if (at < 0) {
    return undefined;
  }
  const bits = data.subarray(at, at + ((count + 7) >>> 3));
  if (count & 7 && data.readUInt8(at + (count >>> 3)) >> (count & 7)) {
    throw new FrameError("padding bits of the nulls are not 0", "padding");
  }
  for (let i = 0; i < count; i++) {
    if (of[i] !== 0 && isNull(bits, i)) {
      throw new FrameError("a null with a length", "null");
    }
  }
  return bits;
}

/** All timestamps as they are, any 64-bit number; undefined when the frame has none. */
export function timestamps(frame: Frame): BigInt64Array | undefined {
  const { data, timestampsAt, count } = frame;
  return timestampsAt === undefined ? undefined : int64s(data, timestampsAt, count);
}

/** One timestamp, without a BigInt, which would cost more than all else; rounded past 2^53. */
export function timestampAt(frame: Frame, i: number): number | undefined {
  if (frame.timestampsAt === undefined) {
    return undefined;
  }
  const at = frame.timestampsAt + 8 * i;
  return frame.data.readInt32LE(at + 4) * 0x100000000 + frame.data.readUInt32LE(at);
}

function checkOffsets(deltas: Int32Array | undefined, count: number, span: number): void {
  let last = count - 1;
  if (deltas !== undefined) {
    last = -1;
    for (let i = 0; i < count; i++) {
      const delta = deltas[i] ?? 0;
      if (delta <= last) {
        throw new FrameError("offsets do not increase", "offset");
      }
      last = delta;
    }
  }
  if (last >= span) {
    throw new FrameError("the last record is past the next offset", "offset");
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
