/** Bytes of a value that nobody else has, and nobody will change. */

import type { Serde } from "./serde.js";
import { typeName } from "./wrong.js";

/** Serdes of this package whose bytes are new each time. */
const FRESH = new WeakSet<object>();

/** Say of a serde that its bytes are new each time: they are not copied. */
export function fresh<S extends object>(serde: S): S {
  FRESH.add(serde);
  return serde;
}

/**
 * Encode a value. What a serde of the user gives is copied: it may be the value itself, or memory
 * that the serde uses again.
 */
export function ownBytes<T>(serde: Serde<T>, value: T): Buffer {
  const data = serde.encode(value);
  if (FRESH.has(serde) && Buffer.isBuffer(data)) {
    return data;
  }
  if (!ArrayBuffer.isView(data)) {
    throw new TypeError(`its serde gave no bytes, but ${typeName(data)}`);
  }
  return Buffer.from(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
}
