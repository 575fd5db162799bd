/** How a test waits for a worker. */

import { AssertionError } from "node:assert";
import type { Signal } from "../signal.js";

/** Milliseconds that a worker has for what a test waits for. */
export const TIMEOUT_MS = 10_000;

/** Wait for a signal, but not for longer. Says whether it came. */
export function heard(signal: Signal, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms);
    signal.wait().then(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}

/** Wait until something is found; whatever fires the signal may be the reason that it is. */
export async function found<T>(
  find: () => T | undefined,
  signal: Signal,
  what: string,
  timeoutMs: number,
): Promise<T> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    signal.clear();
    const value = find();
    if (value !== undefined) {
      return value;
    }
    if (!(await heard(signal, end - performance.now()))) {
      throw missing(`there is no ${what} within ${timeoutMs / 1000} s`);
    }
  }
}

/** What a test fails with. */
export function missing(message: string): AssertionError {
  return new AssertionError({ message });
}
