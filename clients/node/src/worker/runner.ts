/**
 * One task epoch at work: batches to handlers, what they have done to commits.
 *
 * Flow: the runtime gives one batch at a time; the runner calls the handler (calls.ts), keeps what
 * it has done as one unit, and commits (sending.ts) what was kept when the interval is over. end()
 * lets the unit in hand be finished, commits, and ends; lost() drops everything; kill() is the end
 * of the run, which waits for nobody.
 *
 * Nothing can end a handler: one that goes on after its epoch works on, and nothing of it counts.
 *
 * INVARIANT: one handler at a time per task, whatever the epoch and whatever the run: a runner begins
 * when its predecessor has ended.
 * INVARIANT: no handler begins, records or time, while a table that it may read is not whole.
 * INVARIANT: a commit's positions and writes are those of whole units, in order; of a unit that
 * failed nothing is committed.
 */

import type { Batch as RawBatch } from "../batch.js";
import { turn } from "../signal.js";
import type { Tables } from "../tables.js";
import type { Task } from "../tasks.js";
import { asError } from "../thrown.js";
import { Calls, Thrown } from "./calls.js";
import type { Clock } from "./clock.js";
import { channels, type Logger } from "./logging.js";
import { failedHandler, HandlerFailed } from "./policy.js";
import { cut, decode } from "./records.js";
import { Refusing } from "./refusing.js";
import { Sending } from "./sending.js";
import type { Handler, SetPlan, Settings, Ticker } from "./topology.js";
import type { Work } from "./work.js";

/** After so long each() lets the event loop turn, and with it all other tasks. */
const BREATH_MS = 20;

/** What a runner works with. */
export interface Place {
  readonly task: Task;
  readonly plan: SetPlan;
  readonly work: Work;
  readonly tables: Tables;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Is told when busy or failure has changed. */
  changed(): void;
  /** Whether the tables of the task are, and the global ones. */
  whole(): boolean;
}

/** The work of one active task under one epoch. */
export class Runner {
  readonly task: Task;
  readonly #at: Place;
  readonly #calls: Calls;
  readonly #sending: Sending;
  readonly #refusing: Refusing;
  readonly #ticks = new Map<Ticker, number>();
  #failure: Error | null = null;
  #batch: RawBatch | null = null;
  #ticking = false;

  constructor(at: Place) {
    this.task = at.task;
    this.#at = at;
    this.#sending = new Sending(at, () => this.#calls.waiting);
    this.#calls = new Calls(at, this.#sending);
    this.#refusing = new Refusing(at);
  }

  /** Why it has ended, when that ends the program. */
  get failure(): Error | null {
    return this.#failure;
  }

  /** Whether it has a batch in hand, or is in a call by time. */
  get busy(): boolean {
    return this.#batch !== null || this.#ticking;
  }

  /** Whether a handler is at work. */
  get inside(): boolean {
    return this.#calls.inside;
  }

  /** Whether it has nothing in hand, and nothing is due by time. */
  get resting(): boolean {
    return !this.busy && this.#ticked() === null && this.#failure === null;
  }

  /** Whether nothing waits for a commit, or for the answer to one. */
  get clean(): boolean {
    return this.#sending.clean;
  }

  /** Hand it a batch. Only when it is not busy. */
  give(batch: RawBatch): void {
    this.#batch = batch;
    this.#sending.woken.fire();
  }

  /** Look again whether the tables are whole. */
  wake(): void {
    this.#sending.woken.fire();
  }

  /** A table of the task is replayed once more: what is held of rows is not good any more. */
  forget(): void {
    this.#at.work.undo(); // there is no unit in hand: a reset waits for its end
  }

  /** Finish the unit in hand, commit, end. May be called again. */
  end(): void {
    this.#sending.ending = true;
    this.#sending.woken.fire();
  }

  /** As end(), because the task goes elsewhere: a handler may give its unit up. */
  revoke(): void {
    this.#calls.revoke();
    this.end();
  }

  /** The epoch is over: drop everything. The handler in hand is waited for. */
  lost(): void {
    this.#sending.over = true;
    this.#calls.lost();
    this.#sending.woken.fire();
  }

  /** The run is over: as lost(), and nothing is waited for, not even answers. */
  kill(): void {
    this.#sending.kill();
    this.lost();
  }

  /**
   * Work until the end, once what was before has ended; failure says whether it was a good one. One
   * that ends or is lost before it has begun does not wait. Never rejects.
   */
  async run(before: Promise<unknown> | undefined): Promise<void> {
    try {
      await this.#sending.after(before);
      const now = this.#at.clock.now();
      for (const ticker of this.#at.plan.tickers) {
        this.#ticks.set(ticker, now + ticker.everyMs);
      }
      try {
        await this.#work();
      } catch (error) {
        if (!(error instanceof HandlerFailed)) {
          throw error;
        }
        this.#failure = error; // and what was before it is committed first
      }
      await this.#sending.finish();
    } catch (error) {
      this.#failure ??= asError(error);
    } finally {
      this.#sending.close();
      this.#batch = null;
      this.#ticking = false;
      this.#at.changed();
    }
  }

  async #work(): Promise<void> {
    while (true) {
      this.#sending.ended();
      if (this.#sending.over || this.#sending.ending) {
        return;
      }
      const ticker = this.#ticked();
      if (this.#batch !== null) {
        await this.#handle(this.#batch);
        this.#batch = null;
        this.#at.changed();
      } else if (ticker !== null) {
        this.#ticking = true;
        await this.#tick(ticker);
        await turn(); // what is always due must not keep the event loop
        this.#ticking = false;
        this.#at.changed();
      } else if (this.#sending.due()) {
        this.#sending.commit();
      } else {
        await this.#sending.wait(this.#at.whole() ? [...this.#ticks.values()] : []);
      }
    }
  }

  // -- units

  async #handle(raw: RawBatch): Promise<void> {
    const handler = this.#at.plan.handlers.get(raw.topic);
    if (handler === undefined) {
      throw new Error(`task ${this.task.name} has no handler for '${raw.topic}'`);
    }
    const began = performance.now();
    await (handler.each ? this.#each(raw, handler) : this.#process(raw, handler));
    if (channels.batch.hasSubscribers) {
      const ms = performance.now() - began;
      channels.batch.publish({ task: this.task.name, topic: raw.topic, records: raw.length, ms });
    }
  }

  async #process(raw: RawBatch, handler: Handler): Promise<void> {
    const { batch: decoded, bad } = decode(raw, handler.topic);
    let batch = decoded;
    let failed: HandlerFailed | null = null;
    let end = raw.nextOffset;
    for (const [row, error] of bad) {
      failed = this.#refusing.refuse(raw, row, error, handler, true);
      if (failed !== null) {
        // Behind the record before it, not at this one: between them may be a gap.
        end = row > 0 ? raw.offsetAt(row - 1) + 1 : raw.baseOffset;
        batch = cut(raw, batch, bad, row);
        break;
      }
    }
    let size = 0;
    if (batch.length > 0) {
      const said = this.#calls.call(handler, batch);
      const done = said instanceof Promise ? await said : said;
      if (this.#sending.over || this.#calls.gaveUp) {
        return;
      }
      if (done instanceof Thrown) {
        const where = `in the batch of ${raw.topic}/${raw.task.partition} from offset`;
        throw failedHandler(handler.name, `${where} ${batch.offsetAt(0)}`, done.error);
      }
      size = done;
    } else if (bad.size > 0) {
      size = this.#at.work.settle(); // dead letters
    }
    await this.#sending.roomFor(size);
    this.#sending.keep(size, raw.topic, end);
    if (failed !== null) {
      throw failed;
    }
  }

  async #each(raw: RawBatch, handler: Handler): Promise<void> {
    const { batch, bad } = decode(raw, handler.topic);
    const { clock, settings, work } = this.#at;
    const sending = this.#sending;
    const last = raw.length - 1;
    let breath = clock.now();
    for (let row = 0, good = 0; row <= last; row++) {
      if (sending.over || this.#sending.ending) {
        return; // what is left comes again
      }
      const wrong = bad.get(row);
      let said: number | Thrown;
      if (wrong !== undefined) {
        said = new Thrown(wrong);
      } else {
        const called = this.#calls.call(handler, batch.at(good));
        said = called instanceof Promise ? await called : called;
        good += 1;
      }
      if (sending.over || this.#calls.gaveUp) {
        return;
      }
      if (said instanceof Thrown) {
        const decoding = wrong !== undefined;
        const failed = this.#refusing.refuse(raw, row, said.error, handler, decoding);
        if (failed !== null) {
          throw failed;
        }
        said = work.settle();
      }
      if (!sending.fits(said)) {
        await sending.roomFor(said);
      }
      sending.keep(said, raw.topic, row < last ? raw.offsetAt(row) + 1 : raw.nextOffset);
      if (clock.now() - breath > BREATH_MS) {
        if (settings.commitIntervalMs > 0 && sending.due()) {
          sending.commit();
        }
        await turn();
        sending.ended();
        breath = clock.now();
      }
    }
    if (raw.length === 0) {
      sending.keep(0, raw.topic, raw.nextOffset);
    }
  }

  async #tick(ticker: Ticker): Promise<void> {
    const said = this.#calls.call(ticker);
    const done = said instanceof Promise ? await said : said;
    const now = this.#at.clock.now();
    const next = (this.#ticks.get(ticker) ?? now) + ticker.everyMs;
    this.#ticks.set(ticker, next > now ? next : now + ticker.everyMs);
    if (this.#sending.over || this.#calls.gaveUp) {
      return;
    }
    if (done instanceof Thrown) {
      throw failedHandler(ticker.name, `in task ${this.task.name}`, done.error);
    }
    await this.#sending.roomFor(done);
    if (done > 0) {
      this.#sending.keep(done);
    }
  }

  #ticked(): Ticker | null {
    if (this.#ticks.size === 0 || !this.#at.whole()) {
      return null;
    }
    let [first, due]: [Ticker | null, number] = [null, this.#at.clock.now()];
    for (const [ticker, at] of this.#ticks) {
      if (at < due || (at === due && first === null)) {
        [first, due] = [ticker, at];
      }
    }
    return first;
  }
}
