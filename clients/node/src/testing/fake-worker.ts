/** One worker of a FakeSidecar: what a test makes the sidecar do to it, and what it answers. */

import { FrameKind } from "../codes.js";
import { encode } from "../encode.js";
import type { Frame } from "../frames.js";
import type {
  CommitMessage,
  HelloMessage,
  OutputStream,
  SourceStream,
  TableStream,
} from "../messages.js";
import { type Named, pairs as named } from "../named.js";
import type { Task } from "../tasks.js";
import { FakeWire } from "./fake-wire.js";
import { missing } from "./patience.js";
import { recordsOf } from "./writes.js";

/** A record or row to send. */
export type PairInit = readonly [key: Uint8Array | null, value: Uint8Array | null];
/** A record or row that came. */
export type Pair = readonly [key: Buffer | null, value: Buffer | null];

/** What a task was given with. */
export interface Assigned {
  readonly task: string;
  readonly set: string;
  readonly partition: number;
  readonly role: Task["role"];
  readonly epoch: number;
  readonly sources: readonly SourceStream[];
  readonly tables: readonly TableStream[];
  readonly outputs: readonly OutputStream[];
}

/** A task that was assigned, with its streams. */
export class FakeTask {
  readonly assign: Assigned;
  /** The next offset of each stream. */
  readonly positions: Map<number, number>;

  constructor(assign: Assigned) {
    this.assign = assign;
    this.positions = new Map(assign.sources.map(({ stream, position }) => [stream, position]));
  }

  get name(): string {
    return this.assign.task;
  }

  get epoch(): number {
    return this.assign.epoch;
  }
}

/** A commit as it arrived. */
export interface FakeCommit {
  readonly message: CommitMessage;
  /** Rows by table, in order. */
  readonly changelog: ReadonlyMap<string, readonly Pair[]>;
  /** Records by topic, in order. */
  readonly outputs: ReadonlyMap<string, readonly Pair[]>;
  readonly frames: readonly Frame[];
}

export interface AssignOptions {
  readonly role?: "active" | "standby";
  /** Where each source begins; 0 unless it is named. */
  readonly positions?: Named<number>;
}

/** The other end of one connection: what a test makes the sidecar do. */
export class FakeWorker extends FakeWire {
  #hello: HelloMessage | null = null;
  #lastId = 0;
  #lastStream = 0;
  readonly #epochs = new Map<string, number>();
  readonly #names = new Map<number, readonly [kind: "table" | "output" | "source", name: string]>();

  /** What the worker declares. */
  get hello(): HelloMessage {
    if (this.#hello === null) {
      throw missing("the worker has not said hello");
    }
    return this.#hello;
  }

  /** Wait for hello. */
  async listen(): Promise<HelloMessage> {
    this.#hello = await this.expect("hello");
    return this.#hello;
  }

  /** Assign a partition of a declared set, or of a global table. */
  assign(set: string, partition = 0, options: AssignOptions = {}): FakeTask {
    const declared = this.hello.globals.find((each) => each.name === set);
    const { role = "active", positions = {} } = options;
    const task = new FakeTask({
      task: `${set}/${partition}`,
      set,
      partition,
      role: declared === undefined ? role : "global",
      epoch: this.#nextEpoch(`${set}/${partition}`),
      ...(declared === undefined
        ? { tables: this.#tablesOf(set), ...this.#streamsOf(set, role, positions) }
        : { tables: [this.#table(set, declared.topic, "global")], sources: [], outputs: [] }),
    });
    this.send({ type: "assign", id: this.#nextId(), ...task.assign });
    return task;
  }

  /** Send rows of a table. */
  restore(
    task: FakeTask,
    table: string,
    rows: Iterable<PairInit>,
    { checkpoint }: { readonly checkpoint?: string } = {},
  ): void {
    const { stream } = the(task.assign.tables, (each) => each.name === table, `table ${table}`);
    this.#frame(FrameKind.Restore, task, stream, rows, checkpoint);
  }

  /** Send source records. */
  records(task: FakeTask, topic: string, records: Iterable<PairInit>): void {
    const { stream } = the(task.assign.sources, (each) => each.topic === topic, `source ${topic}`);
    this.#frame(FrameKind.Records, task, stream, records);
  }

  /** Say that the tables are whole, and wait for ready. */
  async restored(task: FakeTask, { wait = true } = {}): Promise<void> {
    this.send({ type: "restored", id: this.#nextId(), task: task.name, epoch: task.epoch });
    if (wait) {
      await this.expect("ready");
    }
  }

  /** Assign, wait for opened, restored without any rows, wait for ready. */
  async start(set: string, partition = 0): Promise<FakeTask> {
    const task = this.assign(set, partition);
    await this.expect("opened");
    await this.restored(task);
    return task;
  }

  /** Make a standby the active. */
  promote({ assign: old }: FakeTask, positions: Named<number> = {}): FakeTask {
    const task = new FakeTask({
      ...old,
      role: "active",
      epoch: this.#nextEpoch(old.task),
      tables: this.#anew(old.tables),
      ...this.#streamsOf(old.set, "active", positions),
    });
    const { epoch, sources, tables, outputs } = task.assign;
    const id = this.#nextId();
    this.send({ type: "promoted", id, task: old.task, epoch, sources, tables, outputs });
    return task;
  }

  /** Make an active a standby. */
  demote({ assign: old }: FakeTask): FakeTask {
    const task = new FakeTask({
      ...old,
      role: "standby",
      epoch: this.#nextEpoch(old.task),
      tables: this.#anew(old.tables),
      sources: [],
      outputs: [],
    });
    const { epoch, tables } = task.assign;
    this.send({ type: "demoted", task: old.task, epoch, tables });
    return task;
  }

  /** Ask for a task back. */
  revoke({ name: task, epoch }: FakeTask, code = "rebalance"): void {
    this.send({ type: "revoke", id: this.#nextId(), task, epoch, deadlineMs: 10_000, code });
  }

  /** End a task's epoch. */
  lose({ name: task, epoch }: FakeTask, code = "fenced"): void {
    this.send({ type: "lost", task, epoch, code });
  }

  /** Ask to wipe a store. */
  reset(task: FakeTask, table: string, nextOffset = 0): void {
    const { stream } = the(task.assign.tables, (each) => each.name === table, `table ${table}`);
    task.positions.set(stream, nextOffset);
    this.send({
      type: "reset",
      id: this.#nextId(),
      task: task.name,
      epoch: task.epoch,
      table,
      stream,
      nextOffset,
      code: "below_log_start",
    });
  }

  /** Wait for a commit and put its frames together. */
  async commit(): Promise<FakeCommit> {
    const message = await this.expect("commit");
    const frames = this.frames(message.id);
    const made = { changelog: new Map<string, Pair[]>(), outputs: new Map<string, Pair[]>() };
    for (const frame of frames) {
      const [kind, name] = this.#names.get(frame.stream) ?? ["output", `stream ${frame.stream}`];
      const into = kind === "table" ? made.changelog : made.outputs;
      into.set(name, [...(into.get(name) ?? []), ...pairsOf(frame)]);
    }
    return { message, frames, ...made };
  }

  /** Answer a commit; each table written gets a checkpoint unless one is given. */
  committed({ message, changelog }: FakeCommit, checkpoints: Named<string> = {}): void {
    const { id, task, epoch } = message;
    const made = [...changelog.keys()].map((table) => [table, `v1:${table}:${id}`] as const);
    const all = new Map([...made, ...named(checkpoints)]);
    this.send({ type: "committed", re: id, task, epoch, checkpoints: all });
  }

  // -- inside

  #tablesOf(set: string): TableStream[] {
    return this.#declared(set).tables.map(({ name, changelog, sourceTopic }) =>
      sourceTopic
        ? this.#table(name, sourceTopic, "source")
        : this.#table(name, changelog || `test-${name}-changelog`, "changelog"),
    );
  }

  #streamsOf(
    set: string,
    role: Task["role"],
    positions: Named<number>,
  ): { sources: SourceStream[]; outputs: OutputStream[] } {
    if (role !== "active") {
      return { sources: [], outputs: [] };
    }
    const begins = new Map(named(positions));
    return {
      sources: this.#declared(set).sources.map((topic) => ({
        topic,
        stream: this.#stream("source", topic),
        position: begins.get(topic) ?? 0,
      })),
      outputs: this.hello.outputs.map((topic) => ({
        topic,
        stream: this.#stream("output", topic),
      })),
    };
  }

  #declared(set: string): HelloMessage["sets"][number] {
    return the(this.hello.sets, (each) => each.name === set, `set ${set}`);
  }

  #table(name: string, topic: string, kind: TableStream["kind"]): TableStream {
    return { name, topic, kind, stream: this.#stream("table", name) };
  }

  #anew(tables: readonly TableStream[]): TableStream[] {
    return tables.map(({ name, topic, kind }) => this.#table(name, topic, kind));
  }

  #frame(
    kind: FrameKind,
    task: FakeTask,
    stream: number,
    pairs: Iterable<PairInit>,
    checkpoint?: string,
  ): void {
    const rows = [...pairs];
    const base = task.positions.get(stream) ?? 0;
    const next = base + rows.length;
    task.positions.set(stream, next);
    const keys = rows.map(([key]) => key);
    const values = rows.map(([, value]) => value);
    const mark = kind === FrameKind.Restore ? (checkpoint ?? `v1:${stream}:${next}`) : "";
    const { epoch } = task;
    this.sendRaw(encode({ kind, stream, epoch, base, next, keys, values, checkpoint: mark }));
  }

  #nextEpoch(task: string): number {
    const epoch = (this.#epochs.get(task) ?? 0) + 1;
    this.#epochs.set(task, epoch);
    return epoch;
  }

  #nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  #stream(kind: "table" | "output" | "source", name: string): number {
    this.#lastStream += 1;
    this.#names.set(this.#lastStream, [kind, name]);
    return this.#lastStream;
  }
}

/** The pairs of a frame, in memory of their own. */
export function pairsOf(frame: Frame): Pair[] {
  return recordsOf(frame, (batch, row) => [batch.keyCopyAt(row), batch.valueCopyAt(row)]);
}

function the<T>(all: readonly T[], is: (each: T) => boolean, what: string): T {
  const found = all.find(is);
  if (found === undefined) {
    throw missing(`the worker has no ${what}`);
  }
  return found;
}
