/**
 * The files of spec/scenarios: read and checked.
 *
 * spec/scenarios/README.md is the specification. A file with a step or a field that is not known is
 * refused when it is loaded.
 */

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { MessageError } from "../../errors.js";
import { MESSAGES } from "../../messages.js";
import { boolean, type Fields, type Incoming, type Kind, maybe, text, word } from "../../schema.js";
import type { Player } from "./player.js";
import { CREDIT, DEADLINES, LIMITS, type Settings } from "./sidecar.js";
import { type AnyFields, anObject, strict } from "./values.js";

export const LEVELS = ["stateless", "tables", "standby"] as const;

const { limits, credit, deadlines } = MESSAGES.welcome.fields;
const HEAD = {
  case: text(),
  level: word(...LEVELS),
  job: word("stateless", "tables"),
  about: text(),
  hint: text(),
  listen: maybe(word("tcp", "unix")),
  proxy: maybe(boolean),
  extra: maybe(boolean),
  names: maybe(word("odd")),
  limits: maybe(limits),
  credit: maybe(credit),
  deadlines: maybe(deadlines),
};

/** The first line of a file. */
export type Head = Incoming<typeof HEAD>;

/** What a step does to its case. */
type Play = (player: Player) => void | Promise<void>;

/** What a step with a certain first key says. Throws for what is not known in it. */
export type Verb = (value: unknown, fields: AnyFields) => Play;
export type Verbs = ReadonlyMap<string, Verb>;

/** One line after the first. */
export interface Step {
  readonly line: number;
  readonly text: string;
  readonly verb: string;
  readonly play: Play;
}

/** One case. */
export interface Scenario {
  readonly head: Head;
  readonly steps: readonly Step[];
}

/** Declare a verb: what stands behind its key, its other fields, and what it does. */
export function verb<V, F extends Fields>(
  value: Kind<never, V>,
  fields: F,
  does: (player: Player, value: V, fields: Incoming<F>) => void | Promise<void>,
): Verb {
  const others = strict(fields);
  return (found, rest) => {
    const read = value.read(found, "the step");
    const known = others.read(rest, "the step");
    return (player) => does(player, read, known);
  };
}

/** What the sidecar of a case says. */
export function settingsOf(head: Head): Partial<Settings> {
  return {
    session: `case ${head.case}`,
    limits: head.limits ?? LIMITS,
    credit: head.credit ?? CREDIT,
    deadlines: head.deadlines ?? DEADLINES,
    oddNames: head.names === "odd",
    extra: head.extra ?? false,
  };
}

/** Read a file. Throws an Error that names the line and what is not known there. */
export function load(path: string, verbs: Verbs): Scenario {
  const name = basename(path);
  let head: Head | null = null;
  const steps: Step[] = [];
  for (const [i, text] of readFileSync(path, "utf8").split("\n").entries()) {
    if (text.trim() === "") {
      continue;
    }
    try {
      const body = anObject.read(JSON.parse(text), "a line");
      if (head === null) {
        head = headOf(body, name.replace(/\.jsonl$/, ""));
      } else if (!("note" in body)) {
        steps.push({ line: i + 1, text, ...stepOf(body, verbs) });
      }
    } catch (error) {
      const why = error instanceof MessageError ? error.text : String(error);
      throw new Error(`${name}, line ${i + 1}: ${why}`, { cause: error });
    }
  }
  if (head === null) {
    throw new Error(`${name} has no line with the case`);
  }
  return { head, steps };
}

function headOf(body: AnyFields, name: string): Head {
  const head = strict(HEAD).read(body, "the case");
  if (head.case !== name) {
    throw new RangeError(`the case is called '${head.case}', the file '${name}'`);
  }
  return head;
}

function stepOf(body: AnyFields, verbs: Verbs): { readonly verb: string; readonly play: Play } {
  const [first, ...rest] = Object.entries(body);
  if (first === undefined) {
    throw new TypeError("a line has no step");
  }
  const [name, value] = first;
  const known = verbs.get(name);
  if (known === undefined) {
    throw new TypeError(`unknown step '${name}'`);
  }
  return { verb: name, play: known(value, Object.fromEntries(rest)) };
}
