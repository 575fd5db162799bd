/**
 * The machinery of TestDriver: a worker's runtime, a simulated sidecar, a clock that stands still.
 *
 * Flow: settle() lets the worker and the sidecar's part (dealer.ts) go on until there is nothing
 * left to do for anybody. What the worker is like says when that is, never a time: a time only ends
 * the wait for a worker that hangs.
 *
 * INVARIANT: the clock moves in advance() alone, but for the moment that a commit waits for.
 */

import { Connection } from "../connection.js";
import { type Dial, unreachable } from "../dial.js";
import { UsageError } from "../errors.js";
import { turn } from "../signal.js";
import { MemoryStore, type Stores } from "../stores/index.js";
import { inside } from "../worker/inside.js";
import type { Runtime } from "../worker/runtime.js";
import type { Topology } from "../worker/topology.js";
import type { Worker } from "../worker/worker.js";
import { Dealer } from "./dealer.js";
import { missing } from "./patience.js";
import { pipe } from "./pipe.js";
import { ManualClock } from "./sim/clock.js";
import { ears, PipeLink } from "./sim/memory.js";
import { Session } from "./sim/session.js";
import { Sidecar } from "./sim/sidecar.js";

/** Of the clock, from the end of a unit to its commit: so that what comes with it is in it, too. */
const INTERVAL_MS = 1 / 1024;
/** Turns of the event loop without news before something outside of it is waited for. */
const TURNS = 100;
/** Between two looks, then. */
const LOOK_MS = 5;
/** When the clock begins, for timestamps. */
const BEGIN_MS = 1_700_000_000_000;

/** Memory that is empty whenever a task comes: every table is restored from its topic. */
const FRESH: Stores = { open: () => new MemoryStore() };

/** Runs of workers that were killed and have not ended yet. */
const dying = new WeakMap<Worker, Promise<void>>();

/** One run of the worker. */
class Life {
  readonly runtime: Runtime;
  readonly end: Promise<void>;
  over = false;
  /** What it has failed with. */
  error: unknown = undefined;
  /** Whoever waited was told how it ended. */
  told = false;

  constructor(runtime: Runtime) {
    this.runtime = runtime;
    this.end = runtime.run().then(
      () => {
        this.over = true;
      },
      (error: unknown) => {
        this.over = true;
        this.error = error;
      },
    );
  }
}

export class Engine {
  readonly clock = new ManualClock();
  readonly sidecar: Sidecar;
  readonly topology: Topology;
  readonly dealer: Dealer;
  readonly #worker: Worker;
  readonly #stores: Stores;
  readonly #timeoutMs: number;
  #life: Life | null = null;
  /** How long the test has let time pass. */
  #passedMs = 0;

  constructor(worker: Worker, partitions: number, stores: Stores | undefined, timeoutMs: number) {
    this.topology = worker[inside].topology();
    this.sidecar = new Sidecar({ partitions });
    this.dealer = new Dealer(this.sidecar, this.topology, () => this.#nowMs);
    this.#worker = worker;
    this.#stores = stores ?? FRESH;
    this.#timeoutMs = timeoutMs;
  }

  /** The time, in ms since 1970. */
  get #nowMs(): number {
    return BEGIN_MS + Math.round(this.#passedMs);
  }

  // -- the worker's life

  /** Start the worker and settle. */
  async start(): Promise<void> {
    await dying.get(this.#worker);
    const options = this.#worker[inside].options({ outside: { dial: this.#dial() } });
    const runtime = this.#worker[inside].runtime({
      connect: () => new Connection(options),
      stores: this.#stores,
      clock: this.clock,
      commitIntervalMs: INTERVAL_MS,
    });
    this.#life = new Life(runtime);
    await this.settle();
  }

  /** Let the worker end as SIGTERM does. Throws what it ends with. */
  async stop(): Promise<void> {
    const life = this.#life;
    if (life === null) {
      return;
    }
    life.runtime.stop(this.#timeoutMs);
    const end = performance.now() + this.#timeoutMs;
    for (let turns = 0; !life.over && !life.told && performance.now() < end; turns++) {
      this.#handle();
      await this.#wait(turns);
    }
    await this.kill();
    this.#tell(life);
  }

  /** End the worker as a crash does: nothing more of it arrives. */
  async kill(): Promise<void> {
    const [life, { session }] = [this.#life, this.sidecar];
    if (life === null) {
      return;
    }
    this.#life = null;
    session?.finish(0);
    session?.link.cut();
    this.sidecar.session = null;
    life.runtime.kill();
    dying.set(this.#worker, life.end);
    await life.end;
    this.sidecar.handle();
  }

  /** Throws UsageError when the worker has ended. */
  check(): void {
    const life = this.#life;
    if (life === null || life.over) {
      throw new UsageError("the worker has ended; restart() starts it again", "usage", {
        cause: life?.error,
      });
    }
  }

  /** A pipe to the sidecar. There is one for each life: what is killed must not come again. */
  #dial(): Dial {
    let first = true;
    return ({ where, signal }, listener) => {
      if (!first) {
        return new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(unreachable(where)), { once: true });
        });
      }
      first = false;
      const [ours, theirs] = pipe();
      const session = new Session(this.sidecar, new PipeLink(ours));
      this.sidecar.session = session;
      ours.listen(ears(session));
      theirs.listen(listener);
      return Promise.resolve(theirs);
    };
  }

  // -- until there is nothing to do

  /** Move the clock, and make every call that is due on the way. */
  async advance(ms: number): Promise<void> {
    const until = this.#passedMs + ms;
    const ahead = this.clock.now() - this.#passedMs; // by the moments of commits
    while (this.clock.move(until + ahead)) {
      this.#passedMs = Math.min(until, this.clock.now() - ahead);
      await this.settle();
    }
    this.#passedMs = until;
  }

  /** Let everything happen that can. Throws what ends the worker. */
  async settle(): Promise<void> {
    const life = this.#life;
    let end = performance.now() + this.#timeoutMs;
    for (let turns = 0; life !== null && life === this.#life; turns++) {
      if (this.#handle()) {
        end = performance.now() + this.#timeoutMs;
        turns = 0;
      }
      if (life.over) {
        this.#tell(life);
        return; // stopped by the worker itself
      }
      if (this.#quiet(life.runtime)) {
        return;
      }
      if (performance.now() > end && turns >= TURNS) {
        life.told = true;
        const left = [...this.dealer.standing()].join("; ") || "a call by time does not end";
        throw missing(`nothing of the worker within ${this.#timeoutMs / 1000} s: ${left}`);
      }
      await this.#wait(turns);
    }
  }

  /** Take what the worker has said, and do the sidecar's part. Says whether there was any. */
  #handle(): boolean {
    const news = !this.sidecar.quiet;
    this.sidecar.handle();
    this.dealer.drive();
    const runtime = this.#life?.runtime;
    if (this.sidecar.quiet && runtime?.resting && !runtime.clean) {
      const { next } = this.clock;
      if (next !== undefined && next <= this.clock.now() + 2 * INTERVAL_MS) {
        this.clock.move(next);
      }
    }
    return news;
  }

  #quiet(runtime: Runtime): boolean {
    const { session, quiet } = this.sidecar;
    const done = quiet && runtime.resting && runtime.clean;
    const left = this.dealer.standing().next();
    return done && left.done === true && session?.credited === true;
  }

  #wait(turns: number): Promise<void> {
    return turns < TURNS ? turn() : this.sidecar.change(LOOK_MS);
  }

  #tell(life: Life): void {
    const { told, error } = life;
    life.told = true;
    if (!told && error !== undefined) {
      throw error;
    }
  }
}
