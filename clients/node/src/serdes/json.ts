/** The serdes of JSON, of a type or of any JSON. */

import { SerdeError, UsageError } from "../errors.js";
import { fresh } from "./own.js";
import type { Serde } from "./serde.js";
import { any, type Shape } from "./shapes.js";
import { isStandard, type StandardSchema, standard } from "./standard.js";
import { parse } from "./text.js";
import { checkShape, shown, Wrong } from "./wrong.js";

/** A serde of JSON. */
export interface JsonSerde<T> extends Serde<T> {
  readonly name: string;
  readonly mutable: boolean;
  /** Whether equal values have equal bytes in every language, which a key needs. */
  readonly canonical: boolean;
  encode(value: T): Buffer;
}

/** What says which JSON it is: a shape (see t), or a validator of zod, valibot and others. */
export type JsonType<T> = Shape<T> | StandardSchema<T>;

/**
 * JSON: compact UTF-8 without ASCII escapes, fields in declared order.
 *
 * With a type values are checked both ways. Without one it is any JSON, and T is what the program
 * says that it is: nothing checks it.
 */
export function json<T = unknown>(type: JsonType<T> = any<T>()): JsonSerde<T> {
  return of(type, false);
}

/**
 * JSON of which equal values have equal bytes in every language (RFC 8785): for keys. Bytes that are
 * not canonical do not decode, and whole numbers past 2^53-1 are refused.
 */
export function canonical<T = unknown>(type: JsonType<T> = any<T>()): JsonSerde<T> {
  return of(type, true);
}

const UNTYPED = any().name;

function of<T>(type: JsonType<T>, canonical: boolean): JsonSerde<T> {
  const shape = isStandard(type) ? standard(type) : type;
  checkShape(`the type of ${canonical ? "canonical" : "json"}()`, shape);
  if (shape.nullable && shape.name !== UNTYPED) {
    throw new UsageError(
      `${shape.name}: it may be null, which is null already, without JSON: leave it out`,
    );
  }
  const encode = (value: T) => run("the value", () => Buffer.from(shape.write(value, canonical)));
  const read = (data: Buffer) => {
    const found = parse(data);
    return run("the JSON", () => shape.read(found));
  };
  // INVARIANT: the decoder of keys takes exactly what encode gives. Otherwise two keys in Kafka
  // could be one key here, and a row could not be found by its key.
  const strict = (data: Buffer) => {
    const value = read(data);
    const due = encode(value);
    if (!due.equals(data)) {
      throw new SerdeError(`${shown(data)} is no canonical JSON: that is ${shown(due)}`);
    }
    return value;
  };
  const name = shape.name === UNTYPED ? "json" : shape.name;
  const decode = canonical ? strict : read;
  return fresh<JsonSerde<T>>({ name, mutable: !shape.scalar, canonical, encode, decode });
}

function run<R>(subject: string, what: () => R): R {
  try {
    return what();
  } catch (error) {
    if (error instanceof Wrong) {
      throw error.error(subject);
    }
    if (error instanceof RangeError) {
      throw new SerdeError(`${subject} is nested too deeply`);
    }
    throw error;
  }
}
