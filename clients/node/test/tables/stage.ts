/** Tables over a connection to a FakeSidecar, driven step by step. */

import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import {
  type Batch,
  type Connection,
  connect,
  type Event,
  type KeyText,
  type MemoryStore,
  MemoryStores,
  type Store,
  type Stores,
  Tables,
  type TableView,
  type Task,
} from "../../src/client.js";
import {
  type FakeCommit,
  FakeSidecar,
  type FakeTask,
  type FakeWorker,
} from "../../src/testing/index.js";

export const b = (text: string): Buffer => Buffer.from(text, "latin1");

/** What a table, store or part of a commit holds, as text. */
export function text(rows: Iterable<readonly [KeyText | Buffer | null, Buffer | null]>): unknown {
  const plain = (part: string | Buffer | null) => (part === null ? null : part.toString("latin1"));
  return Object.fromEntries(Array.from(rows, ([key, value]) => [plain(key), plain(value)]));
}

/** The rows of a commit by table, as text. */
export function changelog(commit: FakeCommit): unknown {
  return Object.fromEntries([...commit.changelog].map(([table, rows]) => [table, text(rows)]));
}

/** Stores that are always the one given. */
export function only(store: MemoryStore): Stores {
  return { open: (): MemoryStore => store };
}

export class Stage {
  readonly conn: Connection;
  readonly stores: Stores;
  readonly tables: Tables;
  worker: FakeWorker;
  readonly sidecar: FakeSidecar;
  readonly notices: string[];
  readonly #events: AsyncIterator<Event, undefined>;

  constructor(
    sidecar: FakeSidecar,
    worker: FakeWorker,
    conn: Connection,
    stores: Stores,
    notices: string[],
  ) {
    this.sidecar = sidecar;
    this.worker = worker;
    this.conn = conn;
    this.stores = stores;
    this.notices = notices;
    this.tables = new Tables(conn, stores);
    this.#events = this.tables[Symbol.asyncIterator]();
  }

  static async open(t: TestContext, stores: Stores = new MemoryStores()): Promise<Stage> {
    const sidecar = await FakeSidecar.listen();
    const notices: string[] = [];
    const [conn, worker] = await Promise.all([
      connect({
        url: sidecar.url,
        sets: [
          {
            name: "words",
            sources: ["words"],
            tables: ["counts", { name: "planes", sourceTopic: "planes-topic" }],
          },
        ],
        globals: [{ name: "airports", topic: "airports" }],
        outputs: ["out"],
        notice: (sentence) => notices.push(sentence),
      }),
      sidecar.accept(),
    ]);
    const stage = new Stage(sidecar, worker, conn, stores, notices);
    t.after(async () => {
      stage.tables.close();
      await conn.close();
      await sidecar.close();
    });
    return stage;
  }

  /** The next event, which is of this type. */
  async event<T extends Event["type"]>(type: T): Promise<Extract<Event, { readonly type: T }>> {
    const { value } = await this.#events.next();
    assert.equal(value?.type, type);
    return value as Extract<Event, { readonly type: T }>;
  }

  /** Go on to the event behind, as the loop of a program does. */
  goOn(): Promise<unknown> {
    return this.#events.next();
  }

  async assigned(set: string, role: "active" | "standby" = "active"): Promise<[FakeTask, Task]> {
    const fake = this.worker.assign(set, 0, { role });
    return [fake, (await this.event("assigned")).task];
  }

  /** Bring words/0 to where records flow. */
  async start(): Promise<[FakeTask, Task]> {
    const [fake, task] = await this.assigned("words");
    await this.worker.expect("opened");
    await this.worker.restored(fake, { wait: false });
    await this.event("restored");
    await this.worker.expect("ready");
    return [fake, task];
  }

  async records(fake: FakeTask, ...values: string[]): Promise<Batch> {
    this.worker.records(
      fake,
      "words",
      values.map((value) => [b("k"), b(value)] as const),
    );
    return (await this.event("records")).batch;
  }

  async restore(fake: FakeTask, table: string, rows: Record<string, string>): Promise<void> {
    this.worker.restore(
      fake,
      table,
      Object.entries(rows).map(([k, v]) => [b(k), b(v)] as const),
    );
    await this.event("restore");
  }

  /** Commit, and answer it. */
  async commit(batch: Batch): Promise<FakeCommit> {
    const done = this.tables.commit(batch);
    const commit = await this.worker.commit();
    this.worker.committed(commit);
    assert.notEqual(await done, null);
    return commit;
  }

  view(task: Task, table = "counts"): TableView {
    const view = this.tables.of(task).get(table);
    assert.ok(view !== undefined);
    return view;
  }

  store(task: Task, table = "counts"): Store {
    return this.stores.open(task, table);
  }
}
