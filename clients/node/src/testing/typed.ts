/** Typed keys and values of a test, to the bytes of the simulated Kafka and back. */

import { SerdeError } from "../errors.js";
import type { Serde } from "../serdes/serde.js";
import { describe } from "../worker/policy.js";

/** The bytes of a key and a value. Throws SerdeError that names where they belong. */
export function both<K, V>(
  of: { readonly name: string; readonly key: Serde<K>; readonly value: Serde<V> },
  key: K | null,
  value: V | null,
): [Uint8Array | null, Uint8Array | null] {
  return [
    encoded(`a key of '${of.name}'`, of.key, key),
    encoded(`a value of '${of.name}'`, of.value, value),
  ];
}

function encoded<T>(what: string, serde: Serde<T>, value: T | null): Uint8Array | null {
  try {
    return value === null ? null : serde.encode(value);
  } catch (error) {
    throw new SerdeError(`${what} cannot be written: ${describe(error)}`, "serde", {
      cause: error,
    });
  }
}

/** The value of bytes, for good. */
export function decoded<T>(serde: Serde<T>, data: Uint8Array | null): T | null {
  return data === null ? null : serde.decode(Buffer.from(data));
}
