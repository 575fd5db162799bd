/**
 * A worker program from start to exit code.
 *
 * Exit codes: 0 the program returned or the sidecar has drained; 1 an error of the program itself,
 * with its stack; 2 an error that needs a human; 3 an error that another start may cure; 128 + n
 * ended by signal n before it could finish.
 */

import { constants } from "node:os";
import { Drained, PillionError } from "./errors.js";

export const EXIT_FAILED = 1;
const EXIT_REFUSED = 2;
const EXIT_RETRIABLE = 3;
const ECHO_MS = 250; // within which the same signal is the first one: timeout(1) sends it twice
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/**
 * Run main, and set the exit code of the process. An error of this package is one sentence on stderr.
 *
 * The first SIGTERM or SIGINT aborts the signal that main gets, which ends the iteration over a
 * connection made with it, so that main can finish its batch, close and return; the second one ends
 * the process. A handler that blocks the event loop blocks both.
 */
export function run(main: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
  return runUnderSignals(main, sayExit);
}

/** As run(); codeOf says what is wrong on stderr, and gives the exit code of an error. */
export async function runUnderSignals(
  main: (signal: AbortSignal) => Promise<unknown>,
  codeOf: (error: unknown) => number,
): Promise<void> {
  const stop = new AbortController();
  let first: { readonly name: string; readonly at: number } | null = null;
  const heard = (name: NodeJS.Signals): void => {
    if (first === null) {
      first = { name, at: performance.now() };
      stop.abort();
    } else if (first.name !== name || performance.now() - first.at > ECHO_MS) {
      process.exit(128 + constants.signals[name]);
    }
  };
  for (const name of SIGNALS) {
    process.on(name, heard);
  }
  try {
    await main(stop.signal);
  } catch (error) {
    // A connection that was given up before there was one rejects with the signal's reason.
    if (!(stop.signal.aborted && error === stop.signal.reason)) {
      process.exitCode = codeOf(error);
    }
  } finally {
    for (const name of SIGNALS) {
      process.off(name, heard);
    }
  }
}

/** Say an error on stderr, and give its exit code. */
export function sayExit(error: unknown): number {
  if (!(error instanceof PillionError)) {
    console.error(error);
  } else if (!(error instanceof Drained)) {
    process.stderr.write(`pillion: ${error.message}\n`);
  }
  return exitCode(error);
}

/** The exit code that an error means. */
export function exitCode(error: unknown): number {
  if (error instanceof Drained) {
    return 0;
  }
  if (!(error instanceof PillionError)) {
    return EXIT_FAILED;
  }
  return error.retriable ? EXIT_RETRIABLE : EXIT_REFUSED;
}
