/**
 * JSON as text: what the serdes of JSON read and write, whatever the type.
 *
 * Written: compact, no ASCII escapes, numbers and strings as JSON.stringify writes them (which is
 * RFC 8785 too). Read: what RFC 8259 allows; of a name that comes twice the last counts.
 */

import { isUtf8 } from "node:buffer";
import { SerdeError } from "../errors.js";
import { parse as parseJson } from "../json.js";
import { messageOf } from "../thrown.js";
import { shown, Wrong } from "./wrong.js";

/** A number that was written with a fraction or an exponent: no int, whatever it is equal to. */
export class Fraction {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

const ESCAPED_SURROGATE = /\\u[dD][89a-fA-F]/;

/**
 * Read JSON. Numbers are number, or bigint for a whole one past 2^53-1, or Fraction. Every string
 * can be written again. Throws SerdeError.
 */
export function parse(data: Buffer): unknown {
  if (!isUtf8(data)) {
    throw new SerdeError(`${shown(data)} is no UTF-8`);
  }
  const text = data.toString();
  let found: unknown;
  try {
    found = parseJson(text, number);
  } catch (error) {
    if (error instanceof RangeError) {
      throw new SerdeError("the JSON is nested too deeply");
    }
    throw new SerdeError(`${shown(data)} is no JSON: ${messageOf(error)}`);
  }
  if (ESCAPED_SURROGATE.test(text)) {
    refuseLoneSurrogates(found);
  }
  return found;
}

/** Write a string in quotes: only `"`, `\` and what is below U+0020 is escaped. */
export function quote(value: string): string {
  if (!value.isWellFormed()) {
    throw new Wrong("has a lone surrogate, which no UTF-8 can hold");
  }
  return JSON.stringify(value);
}

/** Write a number: the fewest digits that read back as the same (-0 is written as 0). */
export function double(value: number): string {
  if (!Number.isFinite(value)) {
    throw new Wrong(`is ${value}, which JSON does not have`);
  }
  return String(value);
}

/** Put names in the order of RFC 8785: by UTF-16 code units, as JavaScript compares strings. */
export function sorted(names: readonly string[]): string[] {
  return [...names].sort();
}

function number(text: string): unknown {
  if (/[.eE]/.test(text)) {
    return new Fraction(Number(text));
  }
  const found = Number(text);
  return Number.isSafeInteger(found) ? found + 0 : BigInt(text); // + 0: nought has no sign
}

/** JSON can escape half a character: it could not be written again. */
function refuseLoneSurrogates(found: unknown): void {
  const stack: unknown[] = [found];
  for (let each = stack.pop(); each !== undefined; each = stack.pop()) {
    if (typeof each === "string") {
      if (!each.isWellFormed()) {
        throw new SerdeError("the JSON has a lone surrogate in a string");
      }
    } else if (typeof each === "object" && each !== null && !(each instanceof Fraction)) {
      // Not push(...parts): a call takes some ten thousand arguments at most.
      for (const [name, part] of Object.entries(each)) {
        stack.push(name, part);
      }
    }
  }
}
