/** Wake-ups between the connection and whoever waits for it, and waits that can be ended. */

// The real one: a test that puts a fake in its place must not stop the loop.
import { setImmediate } from "node:timers";

/** Wakes all that wait. What fires while nobody waits is kept for the next one. */
export class Signal {
  #fired = false;
  #waiting: (() => void)[] = [];

  /** Whether it has fired since the last clear(). */
  get fired(): boolean {
    return this.#fired;
  }

  fire(): void {
    this.#fired = true;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) {
      wake();
    }
  }

  /** Forget what has fired: from now on wait for something new. */
  clear(): void {
    this.#fired = false;
  }

  wait(): Promise<void> {
    if (this.#fired) {
      return Promise.resolve();
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

/** Time, as a connection needs it; tests have another one. */
export interface Clock {
  /** Milliseconds that never go back. */
  now(): number;
  /** Wait; an aborted signal ends the wait at once, without an error. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export const realClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal.aborted) {
        resolve();
        return;
      }
      const end = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      signal.addEventListener("abort", end, { once: true });
    }),
};

/**
 * One turn of the event loop, in which sockets are read: awaiting what is there already gives no
 * turn, so a loop over full queues would never hear of anything.
 */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
