/**
 * Types of JSON, for json() and canonical(): import { json, t } from "pillion/serdes".
 *
 *     const flight = t.object({ tail: t.str, delay: t.or(t.nullable(t.int), null), legs: t.list(leg) })
 *     type Flight = t.Of<typeof flight>
 *
 * A shape reads what the parser gave and writes JSON text, and checks values both ways: what is read
 * equals what was written. Objects have their fields in declared order.
 */

import { exact, readAny, writeAny } from "./any.js";
import { isDate, Moment } from "./moment.js";
import { double, Fraction, quote } from "./text.js";
import { Wrong, wrong } from "./wrong.js";

/** How one type is JSON. Both methods throw Wrong. */
export interface Shape<T> {
  readonly name: string;
  /** Of immutable values without parts. */
  readonly scalar: boolean;
  /** Whether null is one of its values. */
  readonly nullable: boolean;
  read(found: unknown): T;
  write(value: T, canonical: boolean): string;
}

/** A field that may be missing in JSON: it is the fallback then. It is written like any other. */
export interface Field<T> extends Shape<T> {
  fallback(): T;
}

/** The values of a shape. */
export type Of<S> = S extends Shape<infer T> ? T : never;

function scalar<T>(name: string, read: (found: unknown) => T, write: Shape<T>["write"]): Shape<T> {
  return { name, scalar: true, nullable: false, read, write };
}

/** Any JSON. Not checked against a type: any<T>() is what you say it is. */
export function any<T = unknown>(): Shape<T> {
  return {
    name: "any JSON",
    scalar: false,
    nullable: true,
    read: (found) => readAny(found) as T,
    write: writeAny,
  };
}

export const str: Shape<string> = scalar(
  "str",
  (found) => text("str", found),
  (value) => quote(text("str", value)),
);

export const bool: Shape<boolean> = scalar("bool", truth, (value) =>
  truth(value) ? "true" : "false",
);

/** A whole number up to 2^53-1. bigint goes further. */
export const int: Shape<number> = scalar("int", whole, (value) => String(whole(value)));

/** A whole number, of any size but as canonical. */
export const bigint: Shape<bigint> = scalar(
  "bigint",
  (found) => {
    if (typeof found === "number" && Number.isInteger(found)) {
      return BigInt(found);
    }
    return big(found);
  },
  (value, canonical) => (canonical ? exact(big(value)) : String(big(value))),
);

/** Any number of JSON. */
export const float: Shape<number> = scalar(
  "float",
  (found) => {
    const value =
      found instanceof Fraction ? found.value : typeof found === "bigint" ? Number(found) : found;
    if (typeof value !== "number") {
      throw wrong("float", value);
    }
    if (!Number.isFinite(value)) {
      throw new Wrong("does not fit a Double");
    }
    return value + 0; // nought has no sign
  },
  (value) => {
    if (typeof value !== "number") {
      throw wrong("float", value);
    }
    return double(value);
  },
);

/** A moment, which any offset from UTC may be written with; see Moment. */
export const datetime: Shape<Moment> = scalar(
  "datetime",
  (found) => {
    try {
      return Moment.parse(text("datetime (2026-11-30T16:45:00Z)", found));
    } catch (error) {
      throw error instanceof RangeError ? new Wrong(`is no datetime: ${error.message}`) : error;
    }
  },
  (value) => {
    if (!(value instanceof Moment)) {
      throw wrong("a Moment (Moment.of makes one of a Date)", value);
    }
    return `"${value.toString()}"`;
  },
);

/** A day, as text: 2026-11-30. */
export const date: Shape<string> = scalar("date", day, (value) => `"${day(value)}"`);

/** A UUID, as text in lower case, with hyphens. It is read in upper case, too. */
export const uuid: Shape<string> = scalar(
  "uuid",
  (found) => hexadecimal(text("uuid", found).toLowerCase()),
  (value) => `"${hexadecimal(text("uuid", value))}"`,
);

/** One of some words. */
export function oneOf<const W extends string>(...words: readonly W[]): Shape<W> {
  const choice = words.map((word) => `"${word}"`).join(", ");
  const known = (found: unknown) => {
    const word = words.find((each) => each === found);
    if (word === undefined) {
      throw new Wrong(`must be one of ${choice}`);
    }
    return word;
  };
  return scalar(`one of ${choice}`, known, (value) => quote(known(value)));
}

/** null, or what the shape has. */
export function nullable<T>(shape: Shape<T>): Shape<T | null> {
  const name = `${shape.name} or null`;
  const wider = (error: unknown) => {
    if (error instanceof Wrong && error.atTop) {
      error.text = error.text.replace(`must be ${shape.name}, not`, `must be ${name}, not`);
    }
    return error;
  };
  return {
    name,
    scalar: shape.scalar,
    nullable: true,
    read(found) {
      try {
        return found === null ? null : shape.read(found);
      } catch (error) {
        throw wider(error);
      }
    },
    write(value, canonical) {
      try {
        return value === null ? "null" : shape.write(value, canonical);
      } catch (error) {
        throw wider(error);
      }
    },
  };
}

/** What a field is when JSON does not have it. Give a function for what may be changed in place. */
export function or<T>(shape: Shape<T>, fallback: NoInfer<T> | (() => NoInfer<T>)): Field<T> {
  const made = fallback as T | (() => T);
  return { ...shape, fallback: () => (typeof made === "function" ? (made as () => T)() : made) };
}

function text(name: string, found: unknown): string {
  if (typeof found !== "string") {
    throw wrong(name, found);
  }
  return found;
}

function truth(found: unknown): boolean {
  if (typeof found !== "boolean") {
    throw wrong("bool", found);
  }
  return found;
}

function whole(found: unknown): number {
  if (typeof found === "bigint") {
    throw new Wrong("is past 2^53-1, which a number does not hold: use t.bigint");
  }
  if (found instanceof Fraction) {
    throw new Wrong("must be int, not a number with a fraction or an exponent");
  }
  if (typeof found !== "number") {
    throw wrong("int", found);
  }
  if (!Number.isSafeInteger(found)) {
    throw new Wrong(`must be int, not ${found}`);
  }
  return found + 0;
}

function big(found: unknown): bigint {
  if (typeof found !== "bigint") {
    throw wrong("bigint", found instanceof Fraction ? found.value : found);
  }
  return found;
}

function day(found: unknown): string {
  const value = text("date (2026-11-30)", found);
  if (!isDate(value)) {
    throw new Wrong(`is no date: '${value.slice(0, 40)}' is no day like 2026-11-30`);
  }
  return value;
}

function hexadecimal(value: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value)) {
    const like = "0b5a4f9c-26f5-4f0a-9b39-0e3c3c6c9f1d";
    throw new Wrong(`is no uuid: '${value.slice(0, 40)}' is not like ${like}`);
  }
  return value;
}
