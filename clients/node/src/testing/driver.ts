/** TestDriver: a worker and its Kafka in the test's own process. */

import { AsyncLocalStorage } from "node:async_hooks";
import { UsageError } from "../errors.js";
import type { HeaderInit } from "../headers.js";
import type { Stores } from "../stores/index.js";
import { shown } from "../worker/checks.js";
import type {
  AnyTable,
  GlobalTable,
  Output,
  SourceTable,
  Table,
  Topic,
} from "../worker/declared.js";
import type { KafkaRecord } from "../worker/records.js";
import type { Worker } from "../worker/worker.js";
import { Engine } from "./engine.js";
import { TIMEOUT_MS } from "./patience.js";
import { Places } from "./places.js";
import type { Role } from "./sim/epoch.js";
import type { Stored } from "./sim/kafka.js";
import * as moves from "./sim/moves.js";
import { both, decoded } from "./typed.js";

export interface TestDriverOptions {
  /** How many partitions each topic has. */
  readonly partitions?: number;
  /** What the worker keeps its tables in; without it memory that is empty at each assignment. */
  readonly stores?: Stores;
  /** How many real ms may pass without a word of a worker that has something to do. */
  readonly timeoutMs?: number;
}

export interface SendOptions {
  /** Instead of the key's partition. */
  readonly partition?: number;
  readonly headers?: readonly HeaderInit[];
  /** In ms since 1970; without it it is the driver's clock. */
  readonly timestamp?: number;
}

export interface Span {
  readonly seconds?: number;
  readonly minutes?: number;
  readonly hours?: number;
}

/**
 * Runs a worker without Kafka, sidecar, network or waiting. For any test framework, or none.
 *
 *     test("words are counted", async () => {
 *       await using driver = new TestDriver(worker);
 *       await driver.send(lines, "k", "to be or not to be");
 *       assert.deepEqual(driver.table(counts).get("be"), 2);
 *       await driver.restart(); // as after a crash: restored from the changelog
 *       await driver.send(lines, "k", "be");
 *       assert.equal(driver.table(counts).get("be"), 3);
 *       await driver.advance({ minutes: 5 }); // calls what worker.every() has declared
 *       assert.deepEqual(driver.outputs(reports), [["be", 3]]);
 *     });
 *
 * What it does is done when a promise of it resolves: records are processed and committed, and what
 * they made the worker read again (outputs that it reads itself, calls by time) as well. A handler's
 * error rejects it as HandlerFailed, with the error as its cause; a mistake of the program, like a
 * write to an output that was not declared, as UsageError. After it the worker has ended, as in
 * production; restart() starts it again, at that record. A worker that does nothing although there
 * is something to do is an AssertionError that says which task that is.
 *
 * Records go to the partition of their key, like with the Java client; those without a key to 0.
 * Each assignment restores the tables from the changelogs, unless stores are given.
 *
 * Time stands still but in advance(). A task makes one commit of what a method has it do, and one
 * for each call by time: commitIntervalMs passes at once, in no time of the driver's clock.
 *
 * It starts at its first use. Calls that nobody awaits are made one after the other. `await using`
 * stops the worker in order, `using` kills it.
 */
export class TestDriver implements AsyncDisposable, Disposable {
  readonly #engine: Engine;
  readonly #places: Places;
  /** Set where the worker runs. */
  readonly #inside = new AsyncLocalStorage<true>();
  /** The end of the call before. */
  #last: Promise<void> = Promise.resolve();
  #started = false;
  #closed = false;

  constructor(
    worker: Worker,
    { partitions = 1, stores, timeoutMs = TIMEOUT_MS }: TestDriverOptions = {},
  ) {
    if (!Number.isSafeInteger(partitions) || partitions < 1) {
      throw new UsageError(`partitions is ${partitions}; use 1 or more`);
    }
    this.#engine = new Engine(worker, partitions, stores, timeoutMs);
    this.#places = new Places(this.#engine.topology, this.#engine.sidecar);
  }

  // -- records in

  /** Write a record to a source topic, and have it processed. */
  send<K, V>(
    topic: Topic<K, V>,
    key: K | null = null,
    value: V | null = null,
    options: SendOptions = {},
  ): Promise<void> {
    return this.#settled(() => {
      const name = this.#places.source(topic);
      this.#append(name, ...both(topic, key, value), options);
    });
  }

  /** Write a record as bytes, for what does not decode. */
  sendRaw(
    topic: Topic<unknown, unknown>,
    key: Uint8Array | null,
    value: Uint8Array | null,
    options: SendOptions = {},
  ): Promise<void> {
    return this.#settled(() => this.#append(this.#places.source(topic), key, value, options));
  }

  /** Write records in one batch for each partition. */
  sendMany<K, V>(
    topic: Topic<K, V>,
    pairs: Iterable<readonly [key: K | null, value: V | null]>,
    { partition }: Pick<SendOptions, "partition"> = {},
  ): Promise<void> {
    const all = [...pairs];
    return this.#settled(() => {
      const name = this.#places.source(topic);
      const options = partition === undefined ? {} : { partition };
      for (const [key, value] of all) {
        this.#append(name, ...both(topic, key, value), options);
      }
    });
  }

  /** Write a row of a table whose topic others write; null deletes it. */
  put<K, V>(table: SourceTable<K, V> | GlobalTable<K, V>, key: K, value: V | null): Promise<void> {
    return this.#settled(() => {
      if (table.kind !== "sourceTable" && table.kind !== "globalTable") {
        throw new UsageError(`${shown(table)} is no source or global table; send() records`);
      }
      this.#append(this.#places.table(table), ...both(table, key, value), {});
    });
  }

  // -- what came of it

  /** Everything that was committed to an output so far: pairs of key and value, in order. */
  outputs<K, V>(output: Output<K, V>): [key: K | null, value: V | null][] {
    return this.records(output).map(({ key, value }) => [key, value]);
  }

  /** The same with offset, timestamp, headers and partition. */
  records<K, V>(output: Output<K, V>): KafkaRecord<K, V>[] {
    const name = this.#places.output(output);
    return this.#engine.sidecar.kafka.outputs
      .filter(({ topic }) => topic === name)
      .map(({ topic, partition = 0, record }) => ({
        key: decoded(output.key, record.key),
        value: decoded(output.value, record.value),
        offset: record.offset ?? 0,
        timestamp: record.timestamp,
        headers: (record.headers ?? []).map(([name, data]) => [name, data && Buffer.from(data)]),
        topic,
        partition,
      }));
  }

  /** Forget what outputs() and records() have shown. */
  clear(): void {
    this.#engine.dealer.clear();
  }

  /** The committed rows of a table, of all partitions or of one: a copy. */
  table<K, V>(
    table: AnyTable<K, V>,
    { partition }: { readonly partition?: number } = {},
  ): Map<K, V> {
    const rows = this.#places.logs(table, partition).flatMap((log) => [...log.rows()]);
    return new Map(
      rows.map(([key, value]) => [
        table.key.decode(Buffer.from(key, "latin1")),
        table.value.decode(value),
      ]),
    );
  }

  /** What was written to a table's changelog, partition by partition; null deletes. */
  changelog<K, V>(
    table: Table<K, V, V | undefined>,
    { partition }: { readonly partition?: number } = {},
  ): [key: K, value: V | null][] {
    return this.#places
      .logs(table, partition)
      .flatMap(({ records }) => records)
      .flatMap(({ key, value }) =>
        key === null ? [] : [[table.key.decode(Buffer.from(key)), decoded(table.value, value)]],
      );
  }

  // -- what happens

  /** Let time pass: each call of worker.every() that is due on the way is made, in its order. */
  advance({ seconds = 0, minutes = 0, hours = 0 }: Span): Promise<void> {
    return this.#do(async () => {
      const ms = 1000 * (seconds + 60 * minutes + 3600 * hours);
      if (!(ms > 0)) {
        throw new UsageError(
          "advance() takes a time of more than 0: { seconds }, { minutes } or { hours }",
        );
      }
      this.#engine.check();
      await this.#engine.advance(ms);
    });
  }

  /**
   * Take the partition's tasks away, as a rebalance does, and give them back.
   *
   * The handler in hand is finished and committed; the tables are restored anew. May be called in a
   * handler: then it happens meanwhile, and there is nothing to await.
   */
  revoke(partition = 0): Promise<void> {
    return this.#meanwhile(() => {
      const session = this.#engine.sidecar.now;
      for (const epoch of this.#epochs(partition)) {
        if (epoch.role === "active") {
          moves.revoke(session, epoch);
        } else {
          moves.lose(session, epoch, "rebalance");
        }
      }
    });
  }

  /**
   * End the partition's tasks at once, as a fenced member's are, and give them back.
   *
   * What is not committed is dropped, and its records come again. May be called in a handler.
   */
  lose(partition = 0): Promise<void> {
    return this.#meanwhile(() => {
      for (const epoch of this.#epochs(partition)) {
        moves.lose(this.#engine.sidecar.now, epoch);
      }
    });
  }

  /**
   * Kill the worker and start it again, also after it has failed or ended.
   *
   * Tables in memory are gone and restored from their changelogs; stores that were given to the
   * driver stay. Nothing can end a handler: the task of one that goes on waits for it.
   */
  restart(): Promise<void> {
    return this.#do(async () => {
      await this.#engine.kill();
      await this.#engine.start();
    }, false);
  }

  /** Make the partition's tasks copies: their records wait until promote(). */
  standby(partition = 0): Promise<void> {
    return this.#change(partition, "standby");
  }

  /** Make copies the actives again. The tables stay as they are: nothing is replayed. */
  promote(partition = 0): Promise<void> {
    return this.#change(partition, "active");
  }

  /** Have the next commit fail: nothing of it is kept, and its records come again. */
  abortNextCommit(): void {
    const { fates } = this.#engine.sidecar;
    fates.push({ ending: "aborted", code: "commit_failed", lands: false });
  }

  /**
   * Have the worker not be told how the next commit ended. landed says whether Kafka has it.
   *
   * The tables are restored anew; if it has not landed, its records come again.
   */
  unknownNextCommit(landed: boolean): void {
    const { fates } = this.#engine.sidecar;
    fates.push({ ending: "unknown", code: "kafka_unreachable", lands: landed });
  }

  // -- the end

  /** Kill the worker, and wait for nothing. */
  [Symbol.dispose](): void {
    this.#closed = true;
    this.#inside.run(true, () => void this.#engine.kill());
  }

  /** Let the worker finish and end. Rejects with what it ends with, if nobody was told yet. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.#last;
    await this.#inside.run(true, () => this.#engine.stop());
  }

  // -- inside

  #settled(act: () => void): Promise<void> {
    return this.#do(async () => {
      this.#engine.check();
      act();
      await this.#engine.settle();
    });
  }

  /** Do something; inside of a handler whoever has called it settles. */
  #meanwhile(act: () => void): Promise<void> {
    if (!this.#inside.getStore()) {
      return this.#settled(act);
    }
    act();
    return Promise.resolve();
  }

  #change(partition: number, role: Role): Promise<void> {
    return this.#settled(() => {
      for (const { task } of this.#epochs(partition)) {
        this.#engine.dealer.roles.set(task, role);
      }
    });
  }

  /**
   * Do something when all before it is done.
   *
   * Throws at once when a handler calls: it need not await anything, and would be told nothing.
   */
  #do(act: () => Promise<void>, running = true): Promise<void> {
    if (this.#inside.getStore()) {
      throw new UsageError("a handler cannot drive its own test; do it from outside");
    }
    const done = this.#last.then(async () => {
      if (this.#closed) {
        throw new UsageError("this driver was disposed of; make another one");
      }
      await this.#inside.run(true, async () => {
        const first = !this.#started;
        this.#started = true;
        if (first && running) {
          await this.#engine.start();
        }
        await act();
      });
    });
    this.#last = done.catch(() => {});
    return done;
  }

  #append(
    topic: string,
    key: Uint8Array | null,
    value: Uint8Array | null,
    { partition = this.#places.partition(key), headers, timestamp }: SendOptions,
  ): void {
    this.#places.check(partition);
    const record: Stored = { key, value, headers, timestamp };
    this.#engine.dealer.append(topic, partition, record);
  }

  #epochs(partition: number): ReturnType<Engine["dealer"]["epochs"]> {
    this.#places.check(partition);
    return this.#engine.dealer.epochs(partition);
  }
}
