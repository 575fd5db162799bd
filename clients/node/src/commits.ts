/** Commits on their way: cut into frames, sent in order behind credit, answered in order. Pure. */

import { Code, RETRIABLE } from "./codes.js";
import { type RecordInit, writes } from "./encode.js";
import {
  CommitAborted,
  CommitRejected,
  CommitStale,
  CommitUnknown,
  type PillionError,
} from "./errors.js";
import type { DraftOf, Limits, MessageOf } from "./messages.js";
import { type Named, pairs } from "./named.js";
import type { Stream, Task, TaskState } from "./tasks.js";

/** A row of a table: null as value removes the key. */
export type RowInit = readonly [key: Uint8Array, value: Uint8Array | null];
/** Rows by table name. */
export type Changelog = Named<Iterable<RowInit>>;
/** Records by output topic. */
export type Outputs = Named<Iterable<RecordInit>>;

/** The commit is whole in Kafka. A store may now take its writes and its checkpoint. */
export interface Committed {
  readonly task: string;
  /** The new checkpoint of each table that was written. */
  readonly checkpoints: ReadonlyMap<string, string>;
}

export type Outcome = Committed | PillionError;
/** What may answer a commit. */
export type Answer = MessageOf<"committed" | "aborted" | "stale" | "unknown" | "error">;

/** One writes frame of a commit. */
export interface Piece {
  readonly stream: Stream;
  readonly data: Uint8Array;
}

/** A commit without an answer. done is called once. */
export interface Pending {
  readonly id: number;
  readonly of: TaskState;
  /** The message that ends it. */
  readonly message: DraftOf<"commit">;
  /** What of it was not sent yet. */
  readonly frames: Piece[];
  readonly done: (outcome: Outcome) => void;
  /** Something of it was sent. */
  started: boolean;
}

/** Refuse a commit that the sidecar would refuse. Throws CommitRejected. */
export function check(
  state: TaskState,
  sourceNext: ReadonlyMap<string, number>,
  outstanding: number,
): void {
  const { name, sources } = state.task;
  if (!state.allows("commit")) {
    const text = `task ${name} cannot commit while it is ${state.state}; commit what records events bring`;
    throw new CommitRejected(text, Code.NotAllowed);
  }
  if (state.commits >= outstanding) {
    const text = `task ${name} has ${outstanding} commits without an answer; await one first`;
    throw new CommitRejected(text, Code.TooManyCommits);
  }
  const given = [...sourceNext.keys()];
  if (given.length === 0 || !given.every((each) => sources.has(each))) {
    const text = `a commit of task ${name} names the sources ${list(given)}; name one or more of ${list(sources.keys())}`;
    throw new CommitRejected(text, Code.BadPosition);
  }
  for (const [topic, offset] of sourceNext) {
    if (!Number.isSafeInteger(offset) || offset < 0) {
      const text = `a commit of task ${name} names ${offset} as next offset of ${topic}; take a batch's nextOffset`;
      throw new CommitRejected(text, Code.BadPosition);
    }
  }
}

/** Cut the writes of a commit into frames. Throws CommitRejected; nothing was sent then. */
export function build(
  state: TaskState,
  commit: number,
  changelog: Changelog,
  outputs: Outputs,
  limits: Limits,
): Piece[] {
  const { name, epoch } = state.task;
  const frames: Piece[] = [];
  let total = 0;
  for (const { stream, records, to } of targets(state, changelog, outputs)) {
    for (const data of writes(stream.id, epoch, commit, records, limits.maxFrame, to)) {
      frames.push({ stream, data });
      total += data.length;
    }
  }
  if (total > limits.maxCommitBytes) {
    const text = `a commit of ${total} bytes for task ${name} is larger than the ${limits.maxCommitBytes} bytes that the sidecar takes; commit more often, or raise max_commit_bytes`;
    throw new CommitRejected(text, Code.CommitTooLarge);
  }
  return frames;
}

interface Target {
  readonly stream: Stream;
  readonly records: readonly RecordInit[];
  /** Names the stream in errors. */
  readonly to: string;
}

function* targets(state: TaskState, changelog: Changelog, outputs: Outputs): Iterable<Target> {
  for (const [table, rows] of pairs(changelog)) {
    yield {
      stream: writable(state, table),
      records: keyed(rows, state.task, table),
      to: `table '${table}'`,
    };
  }
  for (const [topic, records] of pairs(outputs)) {
    const stream = find(state, state.task.outputs.get(topic)?.stream);
    if (stream === undefined) {
      const text = `topic '${topic}' is not an output of task ${state.task.name}; add it to outputs in connect()`;
      throw new CommitRejected(text, Code.UndeclaredOutput);
    }
    yield { stream, records: [...records], to: `topic '${topic}'` };
  }
}

function writable(state: TaskState, table: string): Stream {
  const found = state.task.tables.get(table);
  const stream = state.table(table);
  if (found === undefined || stream === undefined) {
    const text = `'${table}' is not a table of task ${state.task.name}; declare it as a table of its set`;
    throw new CommitRejected(text, Code.UndeclaredOutput);
  }
  if (found.kind !== "changelog") {
    const text = `'${table}' is a read-only table of task ${state.task.name}; only its topic changes it`;
    throw new CommitRejected(text, Code.NotAllowed);
  }
  return stream;
}

function keyed(rows: Iterable<RowInit>, task: Task, table: string): readonly RowInit[] {
  const all = [...rows];
  const keys: readonly (Uint8Array | null)[] = all.map(([key]) => key); // JavaScript may give a null
  if (keys.includes(null)) {
    const topic = task.tables.get(table)?.topic;
    const text = `a record for table '${table}' of task ${task.name} has a null key, which its changelog ${topic} cannot keep; give each row a key`;
    throw new CommitRejected(text, Code.NullKey);
  }
  return all;
}

function find(state: TaskState, id: number | undefined): Stream | undefined {
  return state.streams.find((each) => each.id === id);
}

/** Turn an answer into what the caller gets. */
export function outcome(message: Answer): Outcome {
  switch (message.type) {
    case "committed":
      return { task: message.task, checkpoints: message.checkpoints };
    case "aborted":
      return new CommitAborted(message.message, message.code, detail(message.code));
    case "unknown":
      return new CommitUnknown(message.message, message.code);
    case "stale":
      return stale(message.task);
    case "error":
      // not_allowed: the sidecar has not heard ready, or a reset or revoke has overtaken it.
      return message.code === Code.NotAllowed
        ? new CommitAborted(message.message, message.code, { retriable: true })
        : new CommitRejected(message.message, message.code, detail(message.code));
  }
}

/** The error of a commit whose epoch is over. */
export function stale(task: string): CommitStale {
  const text = `a commit of task ${task} came after its epoch was over; its records come again`;
  return new CommitStale(text);
}

function detail(code: string): { readonly retriable: boolean } {
  return { retriable: RETRIABLE.has(code) };
}

function list(names: Iterable<string>): string {
  return [...names].sort().join(", ") || "none";
}
