/** Which partition a key belongs to: as the Java client's default partitioner says. */

const MIX = 0x5bd1e995;

/** The partition of a key. Without a key Kafka takes any; here it is 0. */
export function partitionOf(key: Uint8Array | null, partitions: number): number {
  return key === null ? 0 : (murmur2(key) & 0x7fffffff) % partitions;
}

/** murmur2 with Kafka's seed. The result has 32 bits, with a sign, as in Java. */
export function murmur2(data: Uint8Array): number {
  const { buffer, byteOffset, length } = data;
  const view = new DataView(buffer, byteOffset, length);
  const whole = length & ~3;
  let hashed = 0x9747b28c ^ length;
  for (let at = 0; at < whole; at += 4) {
    const part = Math.imul(view.getInt32(at, true), MIX);
    hashed = Math.imul(hashed, MIX) ^ Math.imul(part ^ (part >>> 24), MIX);
  }
  if (whole < length) {
    for (let at = whole; at < length; at++) {
      hashed ^= view.getUint8(at) << (8 * (at - whole));
    }
    hashed = Math.imul(hashed, MIX);
  }
  hashed = Math.imul(hashed ^ (hashed >>> 13), MIX);
  return hashed ^ (hashed >>> 15);
}
