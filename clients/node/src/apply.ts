/**
 * A frame of a changelog into a Map: the hot path of a restore. Pure.
 *
 * The values are copies, for a table lives longer than a frame. Those that follow each other share
 * a slab, as small Buffers of Node share its pool: one copy for many. A value that stays keeps its
 * slab, so a slab is short.
 *
 * INVARIANT: a slab is no longer than SLAB, or than the one value in it.
 */

import { isNull } from "./columns.js";
import type { Frame } from "./frames.js";

/** Bytes of values that are copied together. */
export const SLAB = 16 << 10;

/** Set each key, as latin1 text, to its last value; remove it at a tombstone. No key, no row. */
export function apply(frame: Frame, table: Map<string, Buffer>): void {
  const { data, count, keyLengths, valueLengths, nullKeys, nullValues } = frame;
  let { keysAt: key, valuesAt: value } = frame;
  let slab: ArrayBufferLike = data.buffer;
  let [slabAt, slabEnd] = [0, -1];
  // One loop with plain numbers: a call or a list per record costs several per cent of a restore.
  for (let i = 0; i < count; i++) {
    const keyEnd = key + (keyLengths[i] ?? 0);
    const valueEnd = value + (valueLengths[i] ?? 0);
    if (!isNull(nullKeys, i)) {
      const text = data.toString("latin1", key, keyEnd);
      if (isNull(nullValues, i)) {
        table.delete(text);
      } else {
        if (valueEnd > slabEnd) {
          slabAt = value;
          slabEnd = fitting(valueLengths, i, valueEnd, value + SLAB);
          slab = data.buffer.slice(data.byteOffset + slabAt, data.byteOffset + slabEnd);
        }
        table.set(text, Buffer.from(slab, value - slabAt, valueEnd - value));
      }
    }
    key = keyEnd;
    value = valueEnd;
  }
}

/** The end of the last value behind number i that ends before most; end is that of i. */
function fitting(lengths: Int32Array, i: number, end: number, most: number): number {
  let found = end;
  for (let j = i + 1; j < lengths.length; j++) {
    const next = found + (lengths[j] ?? 0);
    if (next > most) {
      break;
    }
    found = next;
  }
  return found;
}
