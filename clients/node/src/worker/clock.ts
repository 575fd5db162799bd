/** Time, as the runtime sees it: the process's own, or one that a test moves by hand. */

/** A call that was not made yet. */
export interface Timer {
  /** Do not make it. */
  cancel(): void;
}

/** Milliseconds, from an arbitrary point on, that never go back. */
export interface Clock {
  now(): number;
  /** Call once, not before it is that late, and never inside of at() itself. */
  at(when: number, call: () => void): Timer;
}

/**
 * The next multiple of the interval: what waits for it here and there comes at the same moment, so
 * that the commits of all tasks of a worker share a transaction of the sidecar.
 */
export function nextTick(now: number, intervalMs: number): number {
  const tick = (Math.floor(now / intervalMs) + 1) * intervalMs;
  return tick > now ? tick : tick + intervalMs;
}

const LONGEST_MS = 2 ** 31 - 1; // setTimeout fires at once for more

/** The clock of this process. */
export const processClock: Clock = {
  now: () => performance.now(),
  at(when, call) {
    // setTimeout counts whole ms by a clock of its own: it may fire before `when`.
    const arm = (): NodeJS.Timeout =>
      setTimeout(
        () => {
          if (performance.now() >= when) {
            call();
          } else {
            timer = arm();
          }
        },
        Math.min(LONGEST_MS, Math.max(0, Math.ceil(when - performance.now()))),
      );
    let timer = arm();
    return { cancel: () => clearTimeout(timer) };
  },
};
