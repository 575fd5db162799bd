/**
 * Columns of fixed width in the memory of a message. Pure.
 *
 * A typed array needs an address that its numbers' width divides, and the byte order of the machine.
 */

const LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
const NONE = new Int32Array(0);

/** A column of 32 bits: a view where the address allows one. */
export function int32s(data: Buffer, at: number, count: number): Int32Array {
  if (count === 0) {
    return NONE;
  }
  const start = data.byteOffset + at;
  if (LITTLE && start % 4 === 0) {
    return new Int32Array(data.buffer, start, count);
  }
  const copy = data.buffer.slice(start, start + 4 * count);
  if (!LITTLE) {
    Buffer.from(copy).swap32();
  }
  return new Int32Array(copy);
}

/** A column of 64 bits, likewise. */
export function int64s(data: Buffer, at: number, count: number): BigInt64Array {
  const start = data.byteOffset + at;
  if (LITTLE && start % 8 === 0) {
    return new BigInt64Array(data.buffer, start, count);
  }
  const copy = data.buffer.slice(start, start + 8 * count);
  if (!LITTLE) {
    Buffer.from(copy).swap64();
  }
  return new BigInt64Array(copy);
}

/** Whether a record's bit is set. Without the column nothing is null. */
export function isNull(bits: Uint8Array | undefined, i: number): boolean {
  return bits !== undefined && (((bits[i >>> 3] ?? 0) >> (i & 7)) & 1) === 1;
}

/** Where each part of a blob begins: the sum of the lengths before it. */
export function starts(lengths: Int32Array): Uint32Array {
  const found = new Uint32Array(lengths.length);
  let sum = 0;
  for (let i = 0; i < lengths.length; i++) {
    found[i] = sum;
    sum += lengths[i] ?? 0;
  }
  return found;
}
