/**
 * The runtime: one run of a worker, from its connection until stop or the end.
 *
 * Flow: one loop takes events and has the foreman act on them. Stores are the client's Tables' to
 * keep.
 *
 * INVARIANT: nothing of a run goes on behind it but handlers that do not end, and nothing that they
 * do counts.
 */

import type { Connection } from "../connection.js";
import { ConnectionLost, UsageError } from "../errors.js";
import type { Event } from "../events.js";
import { Signal, turn } from "../signal.js";
import type { Stores } from "../stores/index.js";
import { Tables } from "../tables.js";
import { asError } from "../thrown.js";
import type { Clock } from "./clock.js";
import { Crew, type Loops } from "./crew.js";
import type { AnyTable } from "./declared.js";
import { Foreman } from "./foreman.js";
import { type Logger, silent } from "./logging.js";
import { news } from "./news.js";
import { ReadRows, StoreRows } from "./read-rows.js";
import type { Settings, Topology } from "./topology.js";
import { Whole } from "./whole.js";

/** What handlers have to finish what they have in hand. */
export const STOP_TIMEOUT_MS = 10_000;

/** What a run is made with. */
export interface RuntimeOptions {
  readonly connect: () => Connection;
  readonly stores: Stores;
  readonly clock: Clock;
  readonly logger?: Logger;
  /** Each is called with each event, before it is acted on. */
  readonly watch?: readonly ((event: Event) => void)[];
  /** What runs before this one have left. */
  readonly loops?: Loops;
}

/** One run of a worker. run() ends after stop() or when the sidecar has drained, or rejects. */
export class Runtime {
  readonly #topology: Topology;
  readonly #settings: Settings;
  readonly #connect: () => Connection;
  readonly #stores: Stores;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #watch: readonly ((event: Event) => void)[];
  readonly #crew: Crew;
  readonly #whole = new Whole();
  readonly #stopping = new Signal();
  readonly #connected = new Signal();
  readonly #ready = new Signal();
  readonly #ended = new Signal();
  #tables: Tables | null = null;
  #timeoutMs: number | null = null;
  /** Why the first runner has failed. */
  #failed: Error | null = null;
  #failure: Error | null = null;

  constructor(topology: Topology, settings: Settings, options: RuntimeOptions) {
    this.#topology = topology;
    this.#settings = settings;
    this.#connect = options.connect;
    this.#stores = options.stores;
    this.#clock = options.clock;
    this.#logger = options.logger ?? silent;
    this.#watch = options.watch ?? [];
    this.#crew = new Crew(options.loops ?? new Map());
  }

  /** Connect and work. Rejects with what ends the program: HandlerFailed, a ConnectionFatal, … */
  async run(): Promise<void> {
    try {
      const conn = this.#connect();
      try {
        if (await this.#enter(conn)) {
          await this.#work(conn);
        }
      } catch (error) {
        this.#fail(error);
        throw error;
      } finally {
        await conn.close();
      }
    } catch (error) {
      this.#fail(error);
      throw error;
    } finally {
      this.#ended.fire();
      this.#ready.fire();
      this.#connected.fire();
    }
  }

  /** Finish the units in hand, commit, end: within so many ms. Only the first call counts. */
  stop(timeoutMs = STOP_TIMEOUT_MS): void {
    this.#timeoutMs ??= timeoutMs;
    this.#stopping.fire();
    this.#crew.end();
  }

  /** End as a crash does: nothing is finished, and nothing more committed. */
  kill(): void {
    this.#crew.kill();
    this.#stopping.fire();
  }

  /** What run() has rejected with. */
  get failure(): Error | null {
    return this.#failure;
  }

  /** Wait until a sidecar has answered, or the end. */
  connected(): Promise<void> {
    return this.#connected.wait();
  }

  /** Wait for the end of run(). */
  ended(): Promise<void> {
    return this.#ended.wait();
  }

  /** Wait until every task of this worker is whole. Rejects with what run() has rejected with. */
  async ready(): Promise<void> {
    await this.#ready.wait();
    this.check();
  }

  /** Throw what run() has rejected with, or UsageError when it has ended. */
  check(): void {
    if (this.#failure !== null) {
      throw this.#failure;
    }
    if (this.over) {
      throw ended();
    }
  }

  /** Whether every task of this worker is whole, and it runs. */
  get isReady(): boolean {
    return this.#ready.fired && !this.over;
  }

  /** Whether a task is this worker's to process, and its tables are whole. */
  holds(name: string): boolean {
    const found = this.#crew.at(name);
    if (found === undefined || found.revoking || found.done) {
      return false;
    }
    const { task } = found.runner;
    return this.tables.conn.lives(task) && this.#whole.of(task); // lost may be on its way still
  }

  /** Whether run() has ended. */
  get over(): boolean {
    return this.#ended.fired;
  }

  /** Whether who asks is a handler of this run, or was started by one that goes on. */
  get working(): boolean {
    return this.#crew.working;
  }

  /** Whether no handler has anything in hand, and it is not about to end. */
  get resting(): boolean {
    return !this.#stopping.fired && this.#crew.runners.every(({ resting }) => resting);
  }

  /** Whether everything that handlers have done is committed. */
  get clean(): boolean {
    return this.#crew.runners.every(({ clean }) => clean);
  }

  /** The committed rows of a table that this worker has, of actives and standbys. */
  local<K, V>(table: AnyTable<K, V>): ReadRows<K, V> {
    return new ReadRows(table, () =>
      this.#whole.views(this.tables, table.name).map(({ store }) => new StoreRows(store)),
    );
  }

  /** The client's tables. Throws UsageError when the worker does not run. */
  get tables(): Tables {
    if (this.#tables !== null) {
      return this.#tables;
    }
    if (this.over) {
      throw ended();
    }
    throw new UsageError("no sidecar has answered yet; await worker.ready() first");
  }

  // -- events

  /** Connect; false when stop() came first. */
  async #enter(conn: Connection): Promise<boolean> {
    let entering = true;
    void this.#stopping.wait().then(() => {
      if (entering) {
        conn.stop();
      }
    });
    try {
      await conn.open();
    } catch (error) {
      if (this.#stopping.fired && error instanceof ConnectionLost) {
        return false;
      }
      throw error;
    } finally {
      entering = false;
    }
    this.#connected.fire();
    return true;
  }

  async #work(conn: Connection): Promise<void> {
    const tables = new Tables(conn, this.#stores);
    this.#tables = tables;
    try {
      await this.#serve(tables);
    } finally {
      this.#tables = null;
      await this.#cancel();
      tables.close();
    }
  }

  async #serve(tables: Tables): Promise<void> {
    const pump = this.#pump(tables);
    // Its error counts if nobody has stopped the run before it.
    const first = await Promise.race([pump.then(() => "end"), this.#stopping.wait()]);
    if (first !== "end") {
      pump.catch(() => {});
      await this.#finish();
      tables.conn.stop();
      await pump.catch(() => {});
    }
    if (this.#failed !== null) {
      throw this.#failed;
    }
  }

  async #pump(tables: Tables): Promise<void> {
    const foreman = new Foreman({
      topology: this.#topology,
      settings: this.#settings,
      clock: this.#clock,
      logger: this.#logger,
      tables,
      crew: this.#crew,
      whole: this.#whole,
      ending: () => this.#stopping.fired,
      failed: (failure) => this.#runnerFailed(failure),
    });
    while (true) {
      const event = await tables.next(foreman.busy);
      if (event === null) {
        return;
      }
      for (const watch of this.#watch) {
        watch(event);
      }
      news(event, this.#logger);
      foreman.handle(event);
      if (this.#whole.isReady) {
        this.#ready.fire();
      } else {
        this.#ready.clear();
      }
    }
  }

  #runnerFailed(failure: Error): void {
    this.#failed ??= failure;
    this.stop();
  }

  #fail(error: unknown): void {
    this.#failure ??= asError(error);
  }

  // -- the end

  /** Let the runners finish, for as long as stop() has said. */
  async #finish(): Promise<void> {
    const timeoutMs = this.#timeoutMs ?? STOP_TIMEOUT_MS;
    this.#crew.end();
    await this.#crew.ended(this.#clock, timeoutMs);
    const late = this.#crew.alive;
    if (late > 0 && !this.#crew.killed) {
      const what = `${late} handlers did not end within ${timeoutMs} ms`;
      this.#logger.warn(
        { late },
        `${what}; nothing that they do counts, and their records come again`,
      );
    }
  }

  /** Nothing of this run goes on behind it, but handlers that do not end. */
  async #cancel(): Promise<void> {
    if (this.#crew.alive > 0) {
      this.#crew.kill();
      await turn(); // in which all end that wait for no handler
    }
  }
}

function ended(): UsageError {
  return new UsageError("the worker has ended; start() it again");
}
