/**
 * The plain model of what the worker of a world must have done.
 *
 * What a record does depends on the records of its own topic and partition alone, so that the model
 * needs nothing but the log up to a position: whatever failed, came again or was handed over between.
 */

/** What is to be done, and a name of its own. */
export interface Op {
  readonly kind: string;
  readonly id: number;
}

export const KINDS: readonly string[] =
  "add add set del pop get peek default iter drop twice fail bad".split(" ");

/** One topic with its handler. */
export interface Plan {
  readonly name: string;
  readonly set: string;
  readonly each: boolean;
  readonly sync: boolean;
  readonly policy: "stop" | "skip" | "deadLetter";
}

export function opOf(data: Uint8Array): Op {
  const [kind = "", id] = Buffer.from(data).toString().split(" ");
  return { kind, id: Number(id) };
}

/** Whether onError takes the record away, for good. */
export function passesOver(plan: Plan, { kind }: Op): boolean {
  return plan.policy !== "stop" && (kind === "bad" || (kind === "fail" && plan.each));
}

/** What an operation needs of a table. */
export interface Lists {
  get(key: string): number[];
  set(key: string, value: number[]): unknown;
  has(key: string): boolean;
  delete(key: string): boolean;
  keys(): Iterable<string>;
  entries(): Iterable<[string, number[]]>;
}

/** Do what an operation says, of a table or of the model; where it yields, time may pass. */
export function* act(
  { kind }: Op,
  mine: string,
  key: string,
  offset: number,
  rows: Lists,
): Generator<undefined, void, undefined> {
  switch (kind) {
    case "add":
    case "fail":
    case "bad":
      rows.get(key).push(offset);
      break;
    case "set": {
      const made = [offset];
      rows.set(key, made);
      yield;
      made.push(-1);
      break;
    }
    case "del":
    case "pop":
      if (kind === "pop" || rows.has(key)) {
        rows.delete(key);
      }
      break;
    case "get": {
      const found = rows.has(key) ? rows.get(key) : null;
      yield;
      found?.push(offset);
      break;
    }
    case "default":
      if (!rows.has(key)) {
        rows.set(key, [7]);
      }
      rows.get(key).push(offset);
      break;
    case "iter":
      for (const [each, value] of rows.entries()) {
        if (each.startsWith(mine) && value.length < 4) {
          value.push(offset);
          yield;
        }
      }
      break;
    case "drop":
      for (const each of [...rows.keys()].filter((each) => each.startsWith(mine))) {
        rows.delete(each);
      }
      break;
    case "twice":
      rows.get(key).push(offset);
      yield;
      rows.set(key, [...rows.get(key), offset]);
      break;
  }
}

/** A Map that acts like a table with a default. */
class Defaulting extends Map<string, number[]> implements Lists {
  override get(key: string): number[] {
    const found = super.get(key) ?? [];
    this.set(key, found);
    return found;
  }
}

/** What the records before a position have come to. */
export interface After {
  readonly rows: ReadonlyMap<string, readonly number[]>;
  readonly outputs: readonly (readonly number[])[];
  readonly dead: readonly number[];
}

interface Entry {
  readonly offset: number;
  readonly key: string;
  readonly op: Op;
}

/** Adds the logs up. */
export class Model {
  readonly ops: { readonly topic: string; readonly op: Op }[] = [];
  readonly #logs = new Map<string, Entry[]>();
  /** After so many records, by log. */
  readonly #after = new Map<string, After[]>();

  /** A record was written. */
  append(topic: string, partition: number, entry: Entry): void {
    const at = `${topic}/${partition}`;
    this.#logs.set(at, [...(this.#logs.get(at) ?? []), entry]);
    this.ops.push({ topic, op: entry.op });
  }

  /** What is to be there when the records before the position were processed. */
  at(plan: Plan, partition: number, position: number): After {
    const at = `${plan.name}/${partition}`;
    const log = (this.#logs.get(at) ?? []).filter(({ offset }) => offset < position);
    const after: After[] = this.#after.get(at) ?? [{ rows: new Map(), outputs: [], dead: [] }];
    this.#after.set(at, after);
    for (const entry of log.slice(after.length - 1)) {
      after.push(next(plan, after.at(-1) as After, entry));
    }
    return after[log.length] as After;
  }
}

function next(plan: Plan, before: After, { offset, key, op }: Entry): After {
  if (passesOver(plan, op)) {
    const dead = plan.policy === "deadLetter" ? [...before.dead, offset] : before.dead;
    return { ...before, dead };
  }
  const rows = new Defaulting(Array.from(before.rows, ([each, list]) => [each, [...list]]));
  const mine = `${plan.name}:`;
  for (const _ of act(op, mine, mine + key, offset, rows)) {
    // no time passes here
  }
  const made = [offset, rows.has(mine + key) ? rows.get(mine + key).length : 0];
  return { rows, outputs: [...before.outputs, made], dead: before.dead };
}
