/**
 * Calls of user code, one at a time: what it gets, and what comes of it.
 *
 * Flow: call() runs a handler as one unit. A plain function has ended when it returns; one that
 * gives a promise is waited for, and what was kept before it is committed meanwhile.
 *
 * INVARIANT: a context is good for its own call; what a handler has left running uses no other one's.
 */

import { StoreError } from "../errors.js";
import { type CallScope, Context, isMistake, plainHandler } from "./context.js";
import type { Place } from "./runner.js";
import type { Sending } from "./sending.js";
import type { Handler, Ticker } from "./topology.js";

/** What user code has thrown, which may be anything. */
export class Thrown {
  readonly error: unknown;

  constructor(error: unknown) {
    this.error = error;
  }
}

/** The bytes that a unit writes, or why there is none. */
export type Done = number | Thrown;

export class Calls {
  /** A handler is at work. */
  inside = false;
  /** An async one is. */
  waiting = false;
  /** A handler has ended its unit because the task is revoked. */
  gaveUp = false;
  readonly #at: Place;
  readonly #sending: Sending;
  #revoked = false;
  /** Made when a handler asks for the signal. */
  #abort: AbortController | null = null;

  constructor(at: Place, sending: Sending) {
    this.#at = at;
    this.#sending = sending;
  }

  /**
   * Let user code do a unit. What it has thrown is given, but for mistakes in the program itself,
   * which are thrown on: no record is at fault.
   */
  call(of: Handler, what: unknown): Done | Promise<Done>;
  call(of: Ticker): Done | Promise<Done>;
  call(of: Handler | Ticker, what?: unknown): Done | Promise<Done> {
    const lent = new Lent(this, this.#at);
    const { work, settings } = this.#at;
    const ctx = new Context(of.name, work, of.tables, settings.outputs, lent);
    this.inside = true;
    let waits = false;
    try {
      const said = invoke(of, what, ctx);
      waits = isThenable(said);
      if (waits) {
        return this.#wait(said, lent);
      }
      if (lent.told) {
        throw plainHandler(of.name);
      }
      return work.settle();
    } catch (error) {
      return this.#undone(error);
    } finally {
      if (!waits) {
        this.#left(lent);
      }
    }
  }

  /** The task goes elsewhere, and the handler may give up. */
  revoke(): void {
    this.#revoked = true;
    this.#abort?.abort(this.#reason());
  }

  /** Nothing of the handler in hand will count. */
  lost(): void {
    this.#abort?.abort(this.#reason());
  }

  get stale(): boolean {
    return this.#sending.over;
  }

  /** Aborts when the task is revoked or lost. */
  signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#revoked || this.stale) {
      this.#abort.abort(this.#reason());
    }
    return this.#abort.signal;
  }

  async #wait(said: unknown, lent: Lent): Promise<Done> {
    this.waiting = true;
    this.#sending.beside();
    try {
      try {
        await said;
      } finally {
        this.waiting = false;
      }
      return this.#at.work.settle();
    } catch (error) {
      return this.#undone(error);
    } finally {
      this.#left(lent);
    }
  }

  #left(lent: Lent): void {
    lent.open = false;
    this.inside = false;
  }

  #undone(error: unknown): Thrown {
    const { work, tables, task, logger } = this.#at;
    work.undo();
    if (isMistake(error)) {
      throw error;
    }
    if (error instanceof StoreError && !this.#sending.over) {
      // No fault of the record: the task is opened anew, and its records come again.
      tables.fail(task, error);
      this.#sending.over = true;
    }
    if (this.#sending.over) {
      logger.debug(
        { task: task.name, err: error },
        `a handler of task ${task.name}, which is gone`,
      );
    }
    this.gaveUp = this.#revoked && this.#isAbort(error);
    return new Thrown(error);
  }

  /** Whether it is what comes of our signal: the reason itself, or an error for it. */
  #isAbort(error: unknown): boolean {
    const signal = this.#abort?.signal;
    if (signal === undefined || !signal.aborted || !(error instanceof Error)) {
      return false;
    }
    return error === signal.reason || error.cause === signal.reason || error.name === "AbortError";
  }

  #reason(): DOMException {
    const { name } = this.#at.task;
    const text = `task ${name} is ${this.stale ? "lost" : "revoked"}; its records come again`;
    return new DOMException(text, "AbortError");
  }
}

/** What one call's context asks. */
class Lent implements CallScope {
  open = true;
  /** progress() was told. */
  told = false;
  readonly #calls: Calls;
  readonly #at: Place;

  constructor(calls: Calls, at: Place) {
    this.#calls = calls;
    this.#at = at;
  }

  inside(): boolean {
    return this.open;
  }

  stale(): boolean {
    return this.#calls.stale;
  }

  signal(): AbortSignal {
    return this.#calls.signal();
  }

  progress(): void {
    this.told = true;
    if (!this.stale()) {
      this.#at.tables.conn.progress();
    }
  }
}

function invoke(of: Handler | Ticker, what: unknown, ctx: Context): unknown {
  if ("everyMs" in of) {
    const { call } = of;
    return call(ctx);
  }
  const { call } = of;
  return call(what as never, ctx);
}

function isThenable(said: unknown): boolean {
  return (
    typeof said === "object" && said !== null && "then" in said && typeof said.then === "function"
  );
}
