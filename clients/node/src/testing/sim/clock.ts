/** A clock that stands still until it is moved. */

/** A call that is to be made. */
interface Due {
  readonly when: number;
  readonly call: () => void;
}

/** Milliseconds from 0 on. A Clock of the worker's runtime. */
export class ManualClock {
  #now = 0;
  /** Sorted: the next one first; of two at the same time the one that was asked for first. */
  #due: Due[] = [];

  now(): number {
    return this.#now;
  }

  /** How many calls are to be made. */
  get size(): number {
    return this.#due.length;
  }

  /** When the next call is due; undefined: there is none. */
  get next(): number | undefined {
    return this.#due[0]?.when;
  }

  /** Make a call when the clock is moved there. */
  at(when: number, call: () => void): { cancel(): void } {
    const due: Due = { when, call };
    const behind = this.#due.findIndex((each) => each.when > when);
    this.#due.splice(behind < 0 ? this.#due.length : behind, 0, due);
    return {
      cancel: () => {
        this.#due = this.#due.filter((each) => each !== due);
      },
    };
  }

  /** Go to the next call that is due by then, and make all of that time; false: there was none. */
  move(to: number): boolean {
    const next = this.#due[0];
    const found = next !== undefined && next.when <= to;
    this.#now = Math.max(this.#now, found ? next.when : to);
    for (let due = this.#due[0]; due !== undefined && due.when <= this.#now; due = this.#due[0]) {
      this.#due.shift();
      due.call();
    }
    return found;
  }
}
