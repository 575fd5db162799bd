/** What stands in a declaration: is it a serde, and one for keys? */

import { UsageError } from "../errors.js";
import { canonical, json } from "./json.js";
import { bigint, bytes, float, int, str } from "./scalars.js";
import type { Serde } from "./serde.js";
import { isStandard } from "./standard.js";
import { typeName } from "./wrong.js";

/**
 * Give the serde that was declared. where is what is declared, such as "the key of topic 'flights'".
 * Throws UsageError, in words for those who have no compiler to tell them.
 */
export function serdeOf<T>(what: Serde<T>, key: boolean, where: string): Serde<T> {
  const advice = adviceOn(what, key);
  if (advice !== undefined) {
    throw new UsageError(`${where}: ${advice}`);
  }
  return what;
}

function adviceOn(what: unknown, key: boolean): string | undefined {
  const word = key ? "key: canonical" : "value: json";
  if (what === json || what === canonical) {
    return `json and canonical are functions: write ${word}()`;
  }
  const scalar = SCALARS.find((each) => each === what);
  if (scalar !== undefined) {
    return `${scalar.name} is a function: write ${scalar.name}()`;
  }
  if (what === JSON) {
    return `this is JavaScript's JSON: write ${word}(), from pillion/serdes`;
  }
  const builtin = BUILTINS.get(what);
  if (builtin !== undefined) {
    return `write ${builtin}, from pillion/serdes`;
  }
  if (isStandard(what)) {
    return `a schema is not a serde yet: write ${word}(...) around it`;
  }
  if (has(what, "read", "write")) {
    return `a shape is not a serde yet: write ${word}(...) around it`;
  }
  if (!has(what, "encode", "decode")) {
    return `must be a serde (an object with encode and decode), not ${typeName(what)}`;
  }
  // Equal keys must have equal bytes: they decide on the partition and the row.
  if (key && "canonical" in what && what.canonical === false) {
    return "keys need one form of JSON: write key: canonical(...)";
  }
  return undefined;
}

const SCALARS: readonly (() => unknown)[] = [str, bytes, int, bigint, float];

const BUILTINS: ReadonlyMap<unknown, string> = new Map<unknown, string>([
  [String, "str()"],
  [Number, "int() or float()"],
  [BigInt, "bigint()"],
  [Buffer, "bytes()"],
  [Uint8Array, "bytes()"],
]);

function has(what: unknown, ...methods: string[]): what is object {
  return (
    typeof what === "object" &&
    what !== null &&
    methods.every((name) => typeof (what as Record<string, unknown>)[name] === "function")
  );
}
