/** Where is a key: the question and what comes of it. Pure. */

import { Code, RETRIABLE } from "./codes.js";
import { LocateError, type PillionError, UsageError } from "./errors.js";
import type { DraftOf, ErrorMessage, Limits, LocatedMessage } from "./messages.js";

const FEATURE = "locate";
const OPEN_QUESTIONS = 256; // that a sidecar answers at once
const ENVELOPE = 256; // at least the bytes of a question beside its key and names

/** What is asked: a key's bytes or a partition; of a table, or of a set, or both. */
export interface Question {
  readonly table?: string;
  readonly set?: string;
  readonly key?: Uint8Array;
  readonly partition?: number;
}

/** A member of the group, and where its worker said that others reach it ("" when nowhere). */
export interface Holder {
  readonly member: string;
  readonly address: string;
}

/** A member that keeps a copy. */
export interface Shadow extends Holder {
  /** About how many records it was behind when it joined the group last; null: not known. */
  readonly lag: number | null;
}

/** Which members of the group hold the task of a key. */
export interface Located {
  readonly task: string;
  readonly set: string;
  readonly partition: number;
  /** Who processes the task; null while nobody does. */
  readonly active: Holder | null;
  /** Who keeps copies, the freshest first. */
  readonly standbys: readonly Shadow[];
  /** The group is changing: the active may not have the key any more. */
  readonly stale: boolean;
}

export type Answered = (answer: Located | PillionError) => void;

/** Build the message. Throws UsageError. */
export function question(id: number, asked: Question): DraftOf<"locate"> {
  const { table = "", set = "", key, partition } = asked;
  if (table === "" && set === "") {
    throw new UsageError("locate() names neither a table nor a set; name one");
  }
  if ((key === undefined) === (partition === undefined)) {
    throw new UsageError("locate() takes a key or a partition, and one of them");
  }
  if (key !== undefined && !(key instanceof Uint8Array)) {
    throw new UsageError(`locate() takes bytes as key, not a ${typeof key}; encode it first`);
  }
  if (
    partition !== undefined &&
    !(Number.isInteger(partition) && partition >= 0 && partition < 2 ** 31)
  ) {
    throw new UsageError(`locate() takes a partition from 0 on, not ${partition}`);
  }
  const text = key === undefined ? "" : Buffer.from(key).toString("base64");
  return { type: "locate", id, table, set, key: text, partition };
}

/** Turn an answer into what the caller gets. */
export function located(message: LocatedMessage | ErrorMessage): Located | PillionError {
  if (message.type === "error") {
    return new LocateError(message.message, message.code, {
      retriable: RETRIABLE.has(message.code),
    });
  }
  return {
    task: message.task,
    set: message.set,
    partition: message.partition,
    active: message.active ?? null,
    standbys: message.standbys.map((each) => ({ ...each, lag: each.lag >= 0 ? each.lag : null })),
    stale: message.stale,
  };
}

/** Say why the sidecar is not asked. A question that is too large would end the connection. */
export function impossible(
  message: DraftOf<"locate">,
  features: readonly string[],
  open: number,
  limits: Limits,
): LocateError | null {
  if (!features.includes(FEATURE)) {
    return new LocateError("this sidecar cannot tell where a key is; update it", Code.UnknownType);
  }
  const { key = "", table = "", set = "" } = message;
  const names = Buffer.byteLength(table) + Buffer.byteLength(set); // JSON may escape each byte of them
  if (key.length + 6 * names + ENVELOPE > limits.maxControl) {
    const text = `a question of more than ${limits.maxControl} bytes, which is all that the sidecar takes; take a shorter key`;
    return new LocateError(text, Code.TooLarge);
  }
  if (open >= OPEN_QUESTIONS) {
    const text = `${open} questions are open; await answers before asking more`;
    return new LocateError(text, Code.NotAllowed, { retriable: true });
  }
  return null;
}
