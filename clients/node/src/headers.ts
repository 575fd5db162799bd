/**
 * A record's headers, as its part of a frame's header blob. Pure.
 *
 * Keys are text in Kafka, but nothing makes sure of it: a byte that is no UTF-8 becomes a lone
 * surrogate (U+DC80 to U+DCFF, as in Python), so that whatever came can be written again.
 */

import { FrameError } from "./errors.js";

/** Headers are ordered, keys may repeat, a value may be null or any bytes. */
export type Header = readonly [key: string, value: Buffer | null];
/** A header to write. */
export type HeaderInit = readonly [key: string, value: Uint8Array | null];

const MISFIT = "a record's headers do not fit their length";

/** Read one record's part of the header blob. Throws FrameError. */
export function parseHeaders(raw: Buffer): Header[] {
  const found: Header[] = [];
  if (raw.length > 0) {
    walk(raw, 0, raw.length, found);
  }
  return found;
}

/** Check the headers of one record in a frame, without making anything of them. */
export function checkHeaders(data: Buffer, at: number, end: number): void {
  if (at < end) {
    walk(data, at, end, undefined);
  }
}

/** Write one record's headers. */
export function packHeaders(headers: readonly HeaderInit[]): Buffer {
  const parts: Uint8Array[] = [u32(headers.length)];
  for (const [key, value] of headers) {
    const raw = encodeKey(key);
    parts.push(u32(raw.length), raw, u32(value === null ? 0xffffffff : value.length));
    if (value !== null) {
      parts.push(value);
    }
  }
  return Buffer.concat(parts);
}

function walk(data: Buffer, from: number, end: number, found: Header[] | undefined): void {
  let at = from;
  const room = (size: number) => {
    if (size > end - at) {
      throw new FrameError(MISFIT, "header");
    }
  };
  room(4);
  const count = data.readUInt32LE(at);
  at += 4;
  for (let i = 0; i < count; i++) {
    room(4);
    const size = data.readUInt32LE(at);
    at += 4;
    room(size + 4);
    const keyAt = at;
    at += size;
    const length = data.readInt32LE(at);
    at += 4;
    if (length < -1) {
      throw new FrameError(MISFIT, "header");
    }
    room(Math.max(length, 0));
    const valueAt = at;
    at += Math.max(length, 0);
    if (found !== undefined) {
      const key = decodeKey(data.subarray(keyAt, keyAt + size));
      found.push([key, length < 0 ? null : data.subarray(valueAt, at)]);
    }
  }
  if (at !== end) {
    throw new FrameError(MISFIT, "header");
  }
}

function u32(value: number): Buffer {
  const raw = Buffer.allocUnsafe(4);
  raw.writeUInt32LE(value);
  return raw;
}

const STRICT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Text of a header's key, whatever its bytes are. */
export function decodeKey(raw: Buffer): string {
  try {
    return STRICT.decode(raw);
  } catch {
    return escaped(raw);
  }
}

/** Take characters where there are some, and bytes as surrogates where there are none. */
function escaped(raw: Buffer): string {
  let text = "";
  for (let at = 0; at < raw.length; ) {
    const size = [1, 2, 3, 4].find(
      (n) => at + n <= raw.length && isCharacter(raw.subarray(at, at + n)),
    );
    text +=
      size === undefined
        ? String.fromCharCode(0xdc00 + raw.readUInt8(at))
        : raw.toString("utf8", at, at + size);
    at += size ?? 1;
  }
  return text;
}

function isCharacter(raw: Buffer): boolean {
  try {
    STRICT.decode(raw);
    return true;
  } catch {
    return false;
  }
}

function encodeKey(key: string): Buffer {
  if (!/[\udc80-\udcff]/.test(key) || key.isWellFormed()) {
    return Buffer.from(key);
  }
  const parts = Array.from(key, (character) => {
    const code = character.charCodeAt(0);
    const single = character.length === 1 && code >= 0xdc80 && code <= 0xdcff;
    return single ? Buffer.of(code - 0xdc00) : Buffer.from(character);
  });
  return Buffer.concat(parts);
}
