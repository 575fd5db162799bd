/**
 * worker.run(): a program from start to exit code.
 *
 * Exit codes: 0 stopped by a signal or by stop(), or the sidecar has drained; 1 a handler has failed
 * (the sentence says at which record) or another error of the program, with its stack; 2 an error
 * that needs a human; 3 one that another start may cure; 128 + n ended by a second signal n.
 */

import { inspect } from "node:util";
import { EXIT_FAILED, runUnderSignals, sayExit } from "../run.js";
import { HandlerFailed } from "./policy.js";

/** How long the first connection of run() may take. */
export const CONNECT_TIMEOUT_MS = 3000;

/** Lines of a stack that tell nothing about the user's code: files of this package, and Node's own. */
const OTHERS = [new URL("..", import.meta.url).href, "node:internal/"];

/** Run main to its end, and set the exit code of the process. */
export function runProgram(main: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
  return runUnderSignals(main, codeOf);
}

function codeOf(error: unknown): number {
  if (!(error instanceof HandlerFailed)) {
    return sayExit(error);
  }
  if (error.cause !== undefined) {
    process.stderr.write(`${users(error.cause)}\n`);
  }
  process.stderr.write(`pillion: ${error.message}\n`);
  return EXIT_FAILED;
}

/** The stack of an error without those lines: the rest is the user's code. */
function users(error: unknown): string {
  const lines = inspect(error).split("\n");
  const isOther = (line: string): boolean =>
    /^\s+at /.test(line) && OTHERS.some((each) => line.includes(each));
  return lines.filter((line) => !isOther(line)).join("\n");
}
