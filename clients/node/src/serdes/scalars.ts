/** Serdes of single values, as Kafka's own serialisers write them. */

import { isUtf8 } from "node:buffer";
import { SerdeError } from "../errors.js";
import { fresh } from "./own.js";
import type { Serde } from "./serde.js";
import { shown, typeName } from "./wrong.js";

/** UTF-8, strictly: no lone surrogates, no overlong forms (Kafka's StringSerializer). */
export function str(): Serde<string> {
  return STR;
}

/** The bytes as they are (Kafka's ByteArraySerializer). What is decoded is a copy. */
export function bytes(): Serde<Uint8Array> {
  return BYTES;
}

/**
 * 8 bytes, big endian, two's complement (Kafka's LongSerializer), of whole numbers that a number
 * holds exactly: up to 2^53-1. bigint() has them all.
 */
export function int(): Serde<number> {
  return INT;
}

/** 8 bytes like int(), of any 64-bit number. */
export function bigint(): Serde<bigint> {
  return BIGINT;
}

/** 8 bytes, big endian, IEEE 754 (Kafka's DoubleSerializer). */
export function float(): Serde<number> {
  return FLOAT;
}

const STR = fresh<Serde<string>>({
  name: "str",
  mutable: false,
  encode(value) {
    if (typeof value !== "string") {
      throw other("a string", value);
    }
    if (!value.isWellFormed()) {
      throw new SerdeError("the text has a lone surrogate, which no UTF-8 can hold");
    }
    return Buffer.from(value);
  },
  decode(data) {
    if (!isUtf8(data)) {
      throw new SerdeError(`${shown(data)} is no UTF-8`);
    }
    return data.toString();
  },
});

const BYTES: Serde<Uint8Array> = {
  name: "bytes",
  mutable: false,
  encode(value) {
    if (!(value instanceof Uint8Array)) {
      throw other("bytes", value);
    }
    return value;
  },
  decode: (data) => Buffer.from(data),
};

const INT = fresh<Serde<number>>({
  name: "int",
  mutable: false,
  encode(value) {
    if (typeof value !== "number") {
      throw other("a whole number", value);
    }
    if (!Number.isSafeInteger(value)) {
      const advice = Number.isInteger(value) ? "bigint() goes further" : "float() has others";
      throw new SerdeError(`${value} is no whole number up to 2^53-1; ${advice}`);
    }
    const data = Buffer.allocUnsafe(8);
    const high = Math.floor(value / 0x100000000);
    data.writeInt32BE(high, 0);
    data.writeUInt32BE(value - high * 0x100000000, 4);
    return data;
  },
  decode(data) {
    const high = checked(data, "Long").readInt32BE(0);
    const found = high * 0x100000000 + data.readUInt32BE(4);
    if (!Number.isSafeInteger(found)) {
      const digits = data.readBigInt64BE(0);
      throw new SerdeError(`${digits} is past 2^53-1, which a number does not hold: use bigint()`);
    }
    return found;
  },
});

const BIGINT = fresh<Serde<bigint>>({
  name: "bigint",
  mutable: false,
  encode(value) {
    if (typeof value !== "bigint") {
      throw other("a bigint", value);
    }
    if (BigInt.asIntN(64, value) !== value) {
      throw new SerdeError(`${digits(value)} does not fit a Long (64 bits)`);
    }
    const data = Buffer.allocUnsafe(8);
    data.writeBigInt64BE(value);
    return data;
  },
  decode: (data) => checked(data, "Long").readBigInt64BE(0),
});

const FLOAT = fresh<Serde<number>>({
  name: "float",
  mutable: false,
  encode(value) {
    if (typeof value !== "number") {
      throw other("a number", value);
    }
    const data = Buffer.allocUnsafe(8);
    data.writeDoubleBE(value);
    return data;
  },
  decode: (data) => checked(data, "Double").readDoubleBE(0),
});

function checked(data: Buffer, what: string): Buffer {
  if (data.length !== 8) {
    const count = `${data.length} byte${data.length === 1 ? "" : "s"}`;
    throw new SerdeError(`${shown(data)} is no ${what}: ${count} instead of 8`);
  }
  return data;
}

function other(expected: string, value: unknown): SerdeError {
  return new SerdeError(`must be ${expected}, not ${typeName(value)}`);
}

function digits(value: bigint): string {
  const text = String(value);
  return text.length <= 40 ? text : "a number of more than 40 digits";
}
