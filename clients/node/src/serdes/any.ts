/**
 * JSON without a type. What is read back equals what was written; so whatever would come back as
 * something else (a Date, an instance of a class, NaN) is refused.
 *
 * A whole number past 2^53-1 is a bigint here, both ways: another language wrote all its digits. A
 * number from 1e16 on has an exponent, so that it comes back as a number.
 */

import { double, Fraction, quote, sorted } from "./text.js";
import { under, Wrong, wrong } from "./wrong.js";

/** Any value that JSON has. */
export type Json =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly Json[]
  | { readonly [name: string]: Json };

const INEXACT = "is past 2^53-1, which not every language reads exactly: use a string";

/** Take what the parser gave as it is, with fractions as the numbers that they are. */
export function readAny(found: unknown): unknown {
  if (typeof found !== "object" || found === null) {
    return found;
  }
  if (found instanceof Fraction) {
    if (!Number.isFinite(found.value)) {
      throw new Wrong("has a number that does not fit a Double");
    }
    return found.value + 0;
  }
  if (Array.isArray(found)) {
    for (let i = 0; i < found.length; i++) {
      found[i] = readAny(found[i]);
    }
    return found;
  }
  const members = found as Record<string, unknown>;
  for (const [name, each] of Object.entries(members)) {
    // Only what changes is put back: assigning to __proto__ would not make a member.
    const made = readAny(each);
    if (made !== each) {
      Object.defineProperty(members, name, { value: made });
    }
  }
  return members;
}

/** Write any value that JSON has. Throws Wrong. */
export function writeAny(value: unknown, canonical: boolean): string {
  switch (typeof value) {
    case "string":
      return quote(value);
    case "number":
      return canonical ? exactNumber(value) : untypedNumber(value);
    case "boolean":
      return value ? "true" : "false";
    case "bigint":
      return untypedBigint(value, canonical);
    case "object":
      if (value === null) {
        return "null";
      }
      return Array.isArray(value) ? array(value, canonical) : members(value, canonical);
    default:
      throw wrong("what JSON has", value);
  }
}

/** Write a whole number that every language reads exactly. */
export function exact(value: number | bigint): string {
  if (typeof value === "bigint" ? !isSafe(value) : !Number.isSafeInteger(value)) {
    throw new Wrong(INEXACT);
  }
  return String(value);
}

function isSafe(value: bigint): boolean {
  return value >= -BigInt(Number.MAX_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER);
}

function exactNumber(value: number): string {
  const text = double(value);
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER && !text.includes("e")) {
    throw new Wrong(INEXACT);
  }
  return text;
}

/** Digits alone past 2^53-1 are read as a bigint, another value. */
function untypedNumber(value: number): string {
  const text = double(value);
  if (Math.abs(value) <= Number.MAX_SAFE_INTEGER || text.includes("e")) {
    return text;
  }
  if (Math.abs(value) < 1e16) {
    throw new Wrong("is a number past 2^53-1, which comes back as a bigint: give a bigint");
  }
  return value.toExponential();
}

function untypedBigint(value: bigint, canonical: boolean): string {
  if (canonical) {
    throw new Wrong(
      isSafe(value) ? "is a bigint, which comes back as a number: give a number" : INEXACT,
    );
  }
  if (isSafe(value)) {
    throw new Wrong("is a bigint up to 2^53-1, which comes back as a number: give a number");
  }
  return String(value);
}

function array(items: readonly unknown[], canonical: boolean): string {
  let text = "[";
  let i = 0;
  try {
    for (; i < items.length; i++) {
      text += (i === 0 ? "" : ",") + writeAny(items[i], canonical);
    }
  } catch (error) {
    throw under(i, error);
  }
  return `${text}]`;
}

function members(value: object, canonical: boolean): string {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw wrong("a plain object", value);
  }
  const given = value as Readonly<Record<string, unknown>>;
  const names = Object.keys(given);
  let text = "{";
  for (const name of canonical ? sorted(names) : names) {
    const each = given[name];
    // As in JSON.stringify: TypeScript's optional fields are undefined or not there.
    if (each !== undefined) {
      try {
        text += `${text === "{" ? "" : ","}${quote(name)}:${writeAny(each, canonical)}`;
      } catch (error) {
        throw under(name, error);
      }
    }
  }
  return `${text}}`;
}
