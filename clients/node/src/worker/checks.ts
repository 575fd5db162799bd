/**
 * Mistakes in declarations that a compiler would show, said in a sentence to those who have none.
 *
 * Each function throws UsageError; what is right passes.
 */

import { inspect } from "node:util";
import { Code } from "../codes.js";
import { UsageError } from "../errors.js";
import { bytes } from "../serdes/scalars.js";
import { typeName } from "../serdes/wrong.js";
import { type DeclaredTable, GlobalTable, Output, SourceTable, Table, Topic } from "./declared.js";
import { deadLetter, isVerdict } from "./policy.js";

/** A call that was given no topic has got the handler. */
export function checkTopic(call: string, topic: unknown): void {
  if (!(topic instanceof Topic)) {
    bad(
      `${call}() needs the topic: ${call}(topic, { tables: [...] }, handler), not ${shown(topic)}`,
    );
  }
}

/** A handler takes so many arguments, and is no generator. */
export function checkFunction(name: string, call: unknown, parameters: readonly string[]): void {
  if (typeof call !== "function") {
    bad(`${name} is ${shown(call)}, which is no function`);
  }
  if (/^(Async)?GeneratorFunction$/.test(call.constructor.name)) {
    bad(`${name} is a generator, so that nothing of it would run; make it a function without *`);
  }
  if (call.length > parameters.length) {
    bad(`${name} must take (${parameters.join(", ")})`);
  }
}

/** Options are an object. */
export function checkOptions(call: string, options: unknown): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    bad(`${call}() takes its options as an object before the handler, not ${shown(options)}`);
  }
}

/** The names of all options of a type: a compiler sees to it that none is missing. */
export type Names<O> = { readonly [name in keyof Required<O>]: true };

/** Without it an option that is spelled wrong would be left out without a word. */
export function checkNames(where: string, given: object, names: object): void {
  const known = Object.keys(names);
  const plain = (name: string): string => name.toLowerCase().replace(/[^a-z]|ms$/g, "");
  for (const name of Object.keys(given)) {
    if (!known.includes(name)) {
      const near = known.find((each) => plain(each) === plain(name));
      const advice = near === undefined ? `there are ${known.join(", ")}` : `write ${near}`;
      bad(`${where} has no option '${name}'; ${advice}`);
    }
  }
}

/** tables is an array of tables. */
export function checkTables(name: string, tables: unknown): void {
  if (isTable(tables)) {
    bad(`tables of ${name} is an array: write tables: [${tables.name}]`);
  }
  if (!Array.isArray(tables)) {
    bad(`tables of ${name} is an array of tables, not ${shown(tables)}`);
  }
}

/** onError is a policy. */
export function checkPolicy(name: string, policy: unknown): void {
  if (policy === deadLetter) {
    bad(`onError of ${name} is a function that makes a policy; write deadLetter(output)`);
  }
  if (policy !== undefined && typeof policy !== "function" && !isVerdict(policy)) {
    bad(
      `onError of ${name} must be stop(), skip(), deadLetter(output) or a function, not ` +
        shown(policy),
    );
  }
  if (isVerdict(policy) && policy.verdict === "deadLetter") {
    checkDeadLetters(name, policy.output);
  }
}

/** Dead letters are written as they came: as bytes. */
export function checkDeadLetters(name: string, output: unknown): void {
  const right = output instanceof Output && output.key === bytes() && output.value === bytes();
  if (!right) {
    bad(
      `the dead letters of ${name} are written as they came; their output must be made with ` +
        "key: bytes(), value: bytes()",
    );
  }
}

/** default makes a value each time. */
export function checkDefault(name: string, makeDefault: unknown): void {
  if (makeDefault !== undefined && typeof makeDefault !== "function") {
    const value = inspect(makeDefault, { breakLength: Number.POSITIVE_INFINITY });
    bad(`default of table '${name}' must be a function: () => ${value}, not ${value}`);
  }
}

/** A number from so much on. */
export function checkNumber(name: string, value: unknown, least: number, whole = false): void {
  const right = whole ? Number.isSafeInteger(value) : typeof value === "number";
  if (!right || !((value as number) >= least)) {
    const what = whole ? "a whole number" : "a number";
    bad(`${name} must be ${what} from ${least} on, not ${inspect(value)}`);
  }
}

function isTable(what: unknown): what is DeclaredTable {
  return what instanceof Table || what instanceof SourceTable || what instanceof GlobalTable;
}

/** Name what a user has put where something of the worker belongs. */
export function shown(what: unknown): string {
  if (typeof what === "function") {
    return what.name || "a function";
  }
  if (
    typeof what === "object" &&
    what !== null &&
    "name" in what &&
    typeof what.name === "string"
  ) {
    return `the ${typeName(what)} '${what.name}'`;
  }
  return inspect(what, { depth: 0, breakLength: Number.POSITIVE_INFINITY });
}

/** Throw the error of a declaration. */
export function bad(text: string): never {
  throw new UsageError(text, Code.BadDeclaration);
}
