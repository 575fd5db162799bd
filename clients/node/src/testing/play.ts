/** play(): give a worker records as a group of one would, and keep what it commits. */

import { CloseCode } from "../codes.js";
import { type Named, pairs } from "../named.js";
import type { FakeSidecar } from "./fake.js";
import type { FakeTask, FakeWorker, Pair, PairInit } from "./fake-worker.js";

/** What a worker made of its records. */
export interface Played {
  /**
   * Rows of each table that its changelog adds up to. Keys are text of one character for each byte
   * (latin1).
   */
  readonly tables: ReadonlyMap<string, ReadonlyMap<string, Buffer>>;
  readonly outputs: ReadonlyMap<string, readonly Pair[]>;
  /** The committed position of each source. */
  readonly positions: ReadonlyMap<string, number>;
  readonly commits: number;
}

export interface PlayOptions {
  /** What source and global tables (and changelogs) begin with. */
  readonly tables?: Named<readonly PairInit[]>;
  /** Records of a batch. */
  readonly batch?: number;
}

/**
 * Serve the next worker: partition 0 of each set it declares, its tables, then the records.
 *
 * Resolves when all records are committed; the worker is then told that the sidecar has drained.
 */
export async function play(
  sidecar: FakeSidecar,
  records: Named<readonly PairInit[]>,
  { tables = {}, batch = 100 }: PlayOptions = {},
): Promise<Played> {
  const worker = await sidecar.accept();
  const game = new Game(worker, new Map(pairs(tables)));
  for (const { name } of worker.hello.globals) {
    await game.open(worker.assign(name));
  }
  const given = new Map(pairs(records));
  for (const { name, sources } of worker.hello.sets) {
    const task = worker.assign(name);
    await game.open(task);
    for (const topic of sources) {
      await game.feed(task, topic, given.get(topic) ?? [], batch);
    }
  }
  await worker.close(CloseCode.Drained);
  return game;
}

class Game implements Played {
  readonly tables = new Map<string, Map<string, Buffer>>();
  readonly outputs: Map<string, Pair[]>;
  readonly positions = new Map<string, number>();
  commits = 0;
  readonly #worker: FakeWorker;
  readonly #begin: ReadonlyMap<string, readonly PairInit[]>;

  constructor(worker: FakeWorker, begin: ReadonlyMap<string, readonly PairInit[]>) {
    this.#worker = worker;
    this.#begin = begin;
    this.outputs = new Map(worker.hello.outputs.map((topic) => [topic, []]));
  }

  async open(task: FakeTask): Promise<void> {
    await this.#worker.expect("opened");
    for (const { name, kind } of task.assign.tables) {
      const rows = this.#begin.get(name) ?? [];
      if (rows.length > 0) {
        this.#worker.restore(task, name, rows);
      }
      if (kind === "changelog") {
        this.#apply(name, rows);
      }
    }
    await this.#worker.restored(task);
  }

  async feed(
    task: FakeTask,
    topic: string,
    records: readonly PairInit[],
    batch: number,
  ): Promise<void> {
    for (let at = 0; at < records.length; at += batch) {
      this.#worker.records(task, topic, records.slice(at, at + batch));
    }
    while ((this.positions.get(topic) ?? 0) < records.length) {
      await this.#commit();
    }
  }

  async #commit(): Promise<void> {
    const commit = await this.#worker.commit();
    for (const [table, rows] of commit.changelog) {
      this.#apply(table, rows);
    }
    for (const [topic, rows] of commit.outputs) {
      this.outputs.get(topic)?.push(...rows);
    }
    for (const [topic, next] of commit.message.sourceNext) {
      this.positions.set(topic, next);
    }
    this.commits += 1;
    this.#worker.committed(commit);
  }

  #apply(name: string, rows: readonly PairInit[]): void {
    const table = this.tables.get(name) ?? new Map<string, Buffer>();
    this.tables.set(name, table);
    for (const [key, value] of rows) {
      if (key === null) {
        continue;
      }
      const text = Buffer.from(key).toString("latin1");
      if (value === null) {
        table.delete(text);
      } else {
        table.set(text, Buffer.from(value));
      }
    }
  }
}
