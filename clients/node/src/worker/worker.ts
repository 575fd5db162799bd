/** Worker: what a user writes a program with. */

import { mkdirSync } from "node:fs";
import { Connection } from "../connection.js";
import { UsageError } from "../errors.js";
import type { Event } from "../events.js";
import type { Located } from "../locate.js";
import { DEFAULT_WINDOW, type Options, options } from "../options.js";
import { MemoryStores, SqliteStores, type Stores } from "../stores/index.js";
import { messageOf } from "../thrown.js";
import { checkNumber, shown } from "./checks.js";
import { processClock } from "./clock.js";
import type { Loops } from "./crew.js";
import { Declarations } from "./declarations.js";
import type { AnyTable, SourceTable, Table } from "./declared.js";
import { type Inside, type InsideOptions, type InsideRuntime, inside } from "./inside.js";
import { keysOf } from "./keys.js";
import { type Logger, onStderr, silent } from "./logging.js";
import { checkOptions, type WorkerOptions } from "./options.js";
import { type OnError, stop, Told } from "./policy.js";
import { CONNECT_TIMEOUT_MS, runProgram } from "./program.js";
import { Progress } from "./progress.js";
import { Runtime, type RuntimeOptions, STOP_TIMEOUT_MS } from "./runtime.js";
import type { ReadonlyTableRows } from "./table-rows.js";
import { checkOutput, type Topology, topology } from "./topology.js";

/** Where a key is. */
export interface LocatedHere extends Located {
  /** It is here: worker.local(table) has the newest row that is committed. */
  readonly here: boolean;
}

export interface StopOptions {
  /** What handlers have to finish what they have in hand. */
  readonly timeoutMs?: number;
}

/** One life of a worker. */
interface Life {
  readonly runtime: Runtime;
  /** Of start(): nobody waits for it unless somebody asks. */
  run: Promise<void> | null;
  /** Somebody hears of its failure. */
  heard: boolean;
}

/**
 * A stateful stream processor: topics, tables, and functions that handle records.
 *
 * Declare everything, then run() a program of it, or start() it beside other things.
 */
export class Worker extends Declarations implements AsyncDisposable {
  readonly #given: WorkerOptions;
  readonly #commitIntervalMs: number;
  readonly #onError: OnError;
  readonly #watchers: ((event: Event) => void)[] = [];
  /** The latest loop of each task: a handler that outlives its run keeps its task. */
  readonly #loops: Loops = new Map();
  #life: Life | null = null;

  constructor(given: WorkerOptions = {}) {
    super(given.group);
    checkOptions(given);
    this.#given = given;
    this.#commitIntervalMs = given.commitIntervalMs ?? 100;
    this.#onError = given.onError ?? stop();
  }

  /**
   * Call a function with each event of the connection (assigned, lost, …; see pillion/client).
   *
   * For measuring: it is called before the event is acted on, and must not throw.
   */
  watch(call: (event: Event) => void): void {
    this.#watchers.push(call);
  }

  // -- its life

  /**
   * Run the worker as a program, until a signal, stop(), a drained sidecar or an error.
   *
   * It never rejects: it sets process.exitCode to 0 for a good end, 1 when a handler has failed (its
   * stack and a sentence are on stderr), 2 for an error that needs a human, 3 for one that another
   * start may cure. A second signal ends the process at once, unless a handler blocks it.
   */
  run(): Promise<void> {
    return runProgram(async (signal) => {
      const write = (text: string): void => void process.stderr.write(text);
      const logger = this.#given.logger ?? onStderr(write);
      const progress = new Progress(logger, process.stderr);
      try {
        const { connectTimeoutMs = CONNECT_TIMEOUT_MS } = this.#given;
        const life = this.#begin(connectTimeoutMs, logger, progress);
        life.heard = true;
        stopOn(signal, life.runtime);
        await life.runtime.run();
      } finally {
        progress.close();
      }
    });
  }

  /**
   * Start the worker beside other things; resolves when the sidecar has answered.
   *
   * Signals and stderr are the program's. A failure later on rejects ended() and stop(); when nobody
   * has asked for either, it is an unhandled rejection.
   */
  async start(): Promise<void> {
    const { logger = silent, signal } = this.#given;
    signal?.throwIfAborted();
    const progress = new Progress(logger, null);
    const life = this.#begin(this.#given.connectTimeoutMs, logger, progress);
    life.run = life.runtime.run();
    await life.runtime.connected();
    try {
      life.runtime.check();
    } catch (error) {
      hear(life);
      throw error;
    }
  }

  /**
   * Finish what handlers have in hand, commit, end. Resolves at the end, in a handler at once.
   *
   * A handler that takes longer than timeoutMs goes on, and nothing that it does counts. May be
   * called anywhere, and again. Rejects with what the worker has failed with when nobody was told.
   */
  async stop({ timeoutMs = STOP_TIMEOUT_MS }: StopOptions = {}): Promise<void> {
    checkNumber("timeoutMs", timeoutMs, 0);
    const life = this.#life;
    if (life === null) {
      return;
    }
    const { runtime } = life;
    runtime.stop(timeoutMs);
    if (runtime.working) {
      return;
    }
    await runtime.ended();
    if (runtime.failure !== null && !life.heard) {
      hear(life);
      throw runtime.failure;
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  /**
   * Wait until the tables of all tasks that this worker has are whole.
   *
   * Rejects with what the worker has failed with, and with UsageError when it does not run (any more).
   */
  async ready(): Promise<void> {
    const life = this.#running();
    try {
      await life.runtime.ready();
    } catch (error) {
      hear(life);
      throw error;
    }
  }

  /** Whether ready() would resolve at once: for a probe. */
  get isReady(): boolean {
    return this.#life?.runtime.isReady ?? false;
  }

  /** Wait until the worker has ended. Rejects with what it has failed with. */
  async ended(): Promise<void> {
    const life = this.#running();
    hear(life);
    await life.runtime.ended();
    if (life.runtime.failure !== null) {
      throw life.runtime.failure;
    }
  }

  // -- its tables

  /**
   * The committed rows of a table that this worker has, its standby copies included.
   *
   * A read throws UsageError when the worker does not run (any more), SerdeError for a row that does
   * not decode. Throws UsageError for a table of another worker, of which there would be no rows.
   */
  local<K, V>(table: AnyTable<K, V>): ReadonlyTableRows<K, V> {
    if (!(this.declared.tables as readonly unknown[]).includes(table)) {
      throw new UsageError(
        `${shown(table)} is no table of this worker; give what table() returned`,
      );
    }
    return this.#running().runtime.local(table);
  }

  /**
   * Find the members of the group that hold a key: the active, the standbys, and whether it is here.
   *
   * The key's partition is the one that Kafka's Java client gives to its bytes in the table. Where the
   * topic's records went by other bytes, or by another partitioner, name the partition instead:
   * `{ partition: 3 }`. Rejects with LocateError, and with ConnectionLost while the sidecar is away;
   * a retriable one is worth another attempt.
   */
  async locate<K, V, Missing>(
    table: Table<K, V, Missing> | SourceTable<K, V>,
    where: NoInfer<K> | { readonly partition: number },
  ): Promise<LocatedHere> {
    const { runtime } = this.#running();
    const { name } = table;
    const partition = partitionOf(where);
    const asked =
      partition === undefined
        ? { table: name, key: Buffer.from(keysOf<K>(name, table.key).toText(where as K), "latin1") }
        : { table: name, partition };
    const found = await runtime.tables.conn.locate(asked);
    return { ...found, here: runtime.holds(found.task) };
  }

  // -- inside

  /** For tests and drivers; see inside.ts. */
  get [inside](): Inside {
    return {
      topology: () => this.#topology(),
      options: (given) => this.#options(silent, given),
      runtime: ({ connect, stores, clock, commitIntervalMs, watch }: InsideRuntime) => {
        const watchers = watch === undefined ? [] : [watch];
        const logger = this.#given.logger ?? silent;
        const made = { connect, stores, clock, logger, watch: watchers };
        return this.#live(commitIntervalMs, made).runtime;
      },
    };
  }

  #topology(): Topology {
    const policy = this.#onError;
    if (typeof policy === "object" && policy.verdict === "deadLetter") {
      checkOutput(this.declared, policy, "the worker");
    }
    return topology(this.declared);
  }

  #options(logger: Logger, given: InsideOptions = {}): Options {
    const {
      window = DEFAULT_WINDOW,
      url,
      token,
      replicas,
      advertise,
      name,
      maxFrame,
    } = this.#given;
    const notice = (sentence: string): void => logger.warn({}, sentence);
    const { connectTimeoutMs, outside } = given;
    const made = options(
      {
        token,
        replicas,
        advertise,
        name,
        maxFrame,
        window,
        notice,
        connectTimeoutMs,
        url: given.url ?? url,
      },
      outside,
      this.#topology().declaration,
    );
    return { ...made, ahead: 16 * window };
  }

  /** Make a run of this process, which has not begun. */
  #begin(connectTimeoutMs: number | undefined, logger: Logger, progress: Progress): Life {
    const made = this.#options(logger, { connectTimeoutMs });
    return this.#live(this.#commitIntervalMs, {
      connect: () => new Connection(made),
      stores: this.#stores(logger),
      clock: processClock,
      logger,
      watch: [progress.watch],
    });
  }

  #live(commitIntervalMs: number, made: RuntimeOptions): Life {
    if (this.#life !== null && !this.#life.runtime.over) {
      throw new UsageError("the worker runs already; stop() it first");
    }
    const settings = {
      commitIntervalMs,
      onError: this.#onError,
      outputs: this.declared.outputs,
      told: new Told(),
    };
    const watch = [...(made.watch ?? []), ...this.#watchers];
    const runtime = new Runtime(this.#topology(), settings, { ...made, watch, loops: this.#loops });
    stopOn(this.#given.signal, runtime);
    this.started = true;
    this.#life = { runtime, run: null, heard: false };
    return this.#life;
  }

  #stores(logger: Logger): Stores {
    const { stores, stateDir } = this.#given;
    if (stores !== undefined || stateDir === undefined) {
      return stores ?? new MemoryStores();
    }
    try {
      mkdirSync(stateDir, { recursive: true });
    } catch (error) {
      const why = messageOf(error);
      throw new UsageError(
        `the stateDir ${stateDir} cannot be made (${why}); choose another one, or give stores`,
      );
    }
    return new SqliteStores(stateDir, { notice: (sentence) => logger.warn({}, sentence) });
  }

  #running(): Life {
    if (this.#life === null) {
      throw new UsageError("the worker does not run; await worker.start() first");
    }
    return this.#life;
  }
}

/** Somebody was told, or will be, what the worker has failed with. */
function hear(life: Life): void {
  life.heard = true;
  life.run?.catch(() => {});
}

function stopOn(signal: AbortSignal | undefined, runtime: Runtime): void {
  if (signal === undefined) {
    return;
  }
  const stopIt = (): void => runtime.stop();
  if (signal.aborted) {
    stopIt();
  } else {
    signal.addEventListener("abort", stopIt, { once: true });
    void runtime.ended().then(() => signal.removeEventListener("abort", stopIt));
  }
}

/** A key may be an object, too; one of nothing but a partition is none. */
function partitionOf(where: unknown): number | undefined {
  if (typeof where !== "object" || where === null || !("partition" in where)) {
    return undefined;
  }
  const alone = Object.keys(where).length === 1 && typeof where.partition === "number";
  return alone ? (where.partition as number) : undefined;
}
