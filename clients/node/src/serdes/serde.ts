/** What a serialiser is. */

/**
 * Turns values into the bytes of a key or value of Kafka, and back.
 *
 * Null (a tombstone, a record without key) never reaches a serde. Any object with these two methods
 * is one; it may throw SerdeError, or anything else, which counts as SerdeError.
 *
 * encode must give equal bytes for equal keys. decode(encode(value)) must equal value.
 */
export interface Serde<T> {
  /** Give the bytes of a value; they are copied, so that a buffer may be used again. Throws SerdeError. */
  encode(value: T): Uint8Array;
  /** Give the value of bytes, which may be a view: copy what is to be kept. Throws SerdeError. */
  decode(data: Buffer): T;
  /** May a decoded value be changed in place? false saves a table the check at commit. */
  readonly mutable?: boolean;
  /** For sentences. */
  readonly name?: string;
}

/** What a serde's values are. */
export type ValueOf<S> = S extends Serde<infer T> ? T : never;
