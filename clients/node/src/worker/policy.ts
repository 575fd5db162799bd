/** What happens to a record that cannot be processed. */

import { inspect } from "node:util";
import { PillionError } from "../errors.js";
import type { Output } from "./declared.js";

/** See stop(). */
export interface Stop {
  readonly verdict: "stop";
}

/** See skip(). */
export interface Skip {
  readonly verdict: "skip";
}

/** See deadLetter(). */
export interface DeadLetter {
  readonly verdict: "deadLetter";
  readonly output: Output<Uint8Array, Uint8Array>;
}

export type Verdict = Stop | Skip | DeadLetter;
/** A policy: what to do, or a function that says it for each record. */
export type OnError = Verdict | ((failure: Failure) => Verdict);

/** Characters of an error that its dead letter has. */
const SAID = 1000;

const STOP: Stop = Object.freeze({ verdict: "stop" });
const SKIP: Skip = Object.freeze({ verdict: "skip" });

/**
 * Commit everything before the record and end the program with exit code 1. The next start begins
 * with exactly that record (with process(): with its batch).
 */
export function stop(): Stop {
  return STOP;
}

/** Go on behind the record, as if it had not been there. It is logged. */
export function skip(): Skip {
  return SKIP;
}

/**
 * Write the record to an output as it came, and go on. The output is made with bytes() as key and
 * value.
 *
 * Key, value and headers are the record's own; these headers are added: `pillion-error` (what was
 * wrong), `pillion-topic`, `pillion-partition` and `pillion-offset`.
 */
export function deadLetter(output: Output<Uint8Array, Uint8Array>): DeadLetter {
  return Object.freeze({ verdict: "deadLetter", output });
}

/** A record that could not be processed, as an onError function gets it. */
export interface Failure {
  readonly error: unknown;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  /** Key or value did not decode; else the handler has thrown (with each() only). */
  readonly decoding: boolean;
}

/**
 * A handler has thrown, or a record did not decode, and onError said stop().
 *
 * What was before the record is committed; the next start begins with the record. The error itself
 * is its cause.
 */
export class HandlerFailed extends PillionError {
  constructor(text: string, code = "handler_failed", detail: { readonly cause?: unknown } = {}) {
    super(text, code, detail);
  }
}

/** Whether it is what stop(), skip() or deadLetter() gave. */
export function isVerdict(what: unknown): what is Verdict {
  const said = typeof what === "object" && what !== null && "verdict" in what && what.verdict;
  return said === "stop" || said === "skip" || said === "deadLetter";
}

/** Ask a policy. A function that fails or gives something else is an error of the program. */
export function verdictOf(policy: OnError, failure: Failure): Verdict {
  if (typeof policy !== "function") {
    return policy;
  }
  const said: unknown = policy(failure);
  if (!isVerdict(said)) {
    if (said instanceof Promise) {
      said.catch(() => {}); // it is refused already
    }
    throw new TypeError(
      `onError gave ${inspect(said, { depth: 0 })}; return stop(), skip() or deadLetter(output)`,
    );
  }
  return said;
}

/** Say that user code has thrown. where is such as `at orders/3 offset 7`. */
export function failedHandler(name: string, where: string, error: unknown): HandlerFailed {
  const text = `${name} has failed ${where}: ${describe(error)}`;
  return new HandlerFailed(
    `${text}; what was before is committed, and the next start begins there`,
    "handler_failed",
    { cause: error },
  );
}

/** Say that a record does not decode. */
export function undecodable(where: string, error: unknown): HandlerFailed {
  const text = `the record at ${where} cannot be processed: ${describe(error)}`;
  return new HandlerFailed(
    `${text}; the next start begins with it (onError: skip() or deadLetter(output) pass it over)`,
    "undecodable",
    { cause: error instanceof Error ? (error.cause ?? error) : error },
  );
}

/** Make the headers that a dead letter gets beside its own. */
export function deadLetterHeaders(failure: Failure): (readonly [string, Buffer])[] {
  return [
    ["pillion-error", Buffer.from(beginning(describe(failure.error)).toWellFormed())],
    ["pillion-topic", Buffer.from(failure.topic)],
    ["pillion-partition", Buffer.from(String(failure.partition))],
    ["pillion-offset", Buffer.from(String(failure.offset))],
  ];
}

/** Keep what a header has room for: with more of it Kafka may refuse the record, each time anew. */
function beginning(text: string): string {
  return text.length <= SAID ? text : `${text.slice(0, SAID)}…`;
}

/** Say an error in one line. */
export function describe(error: unknown): string {
  if (error instanceof PillionError) {
    return error.text;
  }
  if (!(error instanceof Error)) {
    return `${inspect(error, { depth: 0, breakLength: Number.POSITIVE_INFINITY })} was thrown`;
  }
  // Both are texts by custom only.
  const name = String(error.name);
  const text = String(error.message ?? "")
    .trim()
    .replace(/\s+/g, " ");
  return text === "" ? name : `${name}: ${text}`;
}

/** Which errors of handlers were logged with their stack: the first of each place. */
export class Told {
  readonly #places = new Set<string>();

  /** Give the error when none was thrown before where it was thrown. */
  first(error: unknown): Error | undefined {
    if (!(error instanceof Error)) {
      return undefined;
    }
    const place = String(error.stack).match(/^\s+at .*$/m)?.[0];
    if (place === undefined || this.#places.has(place)) {
      return undefined;
    }
    this.#places.add(place);
    return error;
  }
}
