/** What a worker says: to a logger of the program, and to whoever subscribes to its channels. */

import { type Channel, channel } from "node:diagnostics_channel";

/**
 * A logger as pino is one; console is one, too. Every call has an object with the facts (`task`,
 * `topic`, `offset`, `err`, …), which may be empty, and then a sentence.
 */
export interface Logger {
  debug(facts: object, sentence: string): void;
  info(facts: object, sentence: string): void;
  warn(facts: object, sentence: string): void;
  error(facts: object, sentence: string): void;
}

function nothing(): void {}

/** Says nothing: what a worker has that was given no logger. */
export const silent: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** What run() has without a logger: warnings and errors, a sentence each, on stderr. */
export function onStderr(write: (text: string) => void): Logger {
  const say = (_facts: object, sentence: string): void => write(`pillion: ${sentence}\n`);
  return { ...silent, warn: say, error: say };
}

/** A task has come to a point of its life. */
export interface TaskNews {
  readonly task: string;
  readonly epoch: number;
  readonly role: string;
  readonly what: "assigned" | "restored" | "promoted" | "demoted" | "revoked" | "lost";
}

/** A handler has ended with a batch, or with what of it counts. */
export interface BatchNews {
  readonly task: string;
  readonly topic: string;
  readonly records: number;
  readonly ms: number;
}

/** A commit has its answer. */
export interface CommitNews {
  readonly task: string;
  readonly ms: number;
  /** Why nothing was committed. */
  readonly error: unknown;
}

/** A table was replayed a bit further. */
export interface RestoreNews {
  readonly task: string;
  readonly table: string;
  readonly records: number;
  readonly remaining: number;
}

/**
 * The channels of node:diagnostics_channel. What they carry is made only when somebody subscribes.
 *
 * A subscriber runs in the worker's own steps: it must be short.
 */
export const channels = {
  task: channel("pillion:task") as Channel<unknown, TaskNews>,
  batch: channel("pillion:batch") as Channel<unknown, BatchNews>,
  commit: channel("pillion:commit") as Channel<unknown, CommitNews>,
  restore: channel("pillion:restore") as Channel<unknown, RestoreNews>,
};
