/** Lives of tasks on one connection, as the sidecar sees them. */

import type { Frame } from "../../frames.js";
import type { OutputStream, SourceStream, TableStream } from "../../messages.js";
import type { Task } from "../../tasks.js";

export type Role = Task["role"];
export type State =
  | "opening"
  | "restoring"
  | "restored"
  | "running"
  | "revoking"
  | "released"
  | "failed"
  | "over";
export type Kind = "records" | "output" | "changelog" | "source" | "global";

/** One topic partition under one epoch. Sizes are in bytes. */
export class Stream {
  readonly id: number;
  readonly epoch: Epoch;
  readonly name: string;
  readonly topic: string;
  readonly kind: Kind;
  /** What the worker has said in hello that we may send ahead. */
  readonly window: number;
  /** What we may send in all. */
  limit: number;
  /** What the worker may send in all. */
  granted: number;
  /** Where the next frame begins. */
  position = 0;
  sent = 0;
  received = 0;
  /** Of the frames that were sent. */
  readonly sizes: number[] = [];
  /** Positions and whether they may be committed: not the last offset + 1 before a gap. */
  readonly ends = new Map<number, boolean>();

  constructor(
    id: number,
    epoch: Epoch,
    name: string,
    topic: string,
    kind: Kind,
    window: number,
    granted: number,
  ) {
    this.id = id;
    this.epoch = epoch;
    this.name = name;
    this.topic = topic;
    this.kind = kind;
    this.window = window;
    this.limit = window;
    this.granted = granted;
  }
}

/** What travels in its task's stream: a frame, or a message behind frames. */
export interface Item {
  /** Null: a message. */
  readonly stream: Stream | null;
  readonly data: string | Uint8Array;
  readonly sent?: () => void;
}

/** One life of a task. */
export class Epoch {
  /** Our name of it, set/partition. */
  readonly task: string;
  /** The worker's. */
  readonly wireName: string;
  /** The set's name, or the global table's. */
  readonly of: string;
  readonly partition: number;
  readonly number: number;
  readonly role: Role;
  state: State = "opening";
  ran = false;
  /** Id of assign. */
  asked = 0;
  /** The id that ready must answer; 0: none. */
  ready = 0;
  /** The id that released must answer; 0: none. */
  revoke = 0;
  /** Ids of restored and promoted that a reset has overtaken. */
  readonly overtaken = new Set<number>();
  /** A ready has come that a reset or revoke had overtaken: the worker could not know. */
  unheard = false;
  /** Tables that are to be wiped, by the id that opened must answer. */
  readonly resets = new Map<number, Stream>();
  readonly tables = new Map<string, Stream>();
  readonly sources = new Map<string, Stream>();
  readonly outputs = new Map<string, Stream>();
  /** By source topic: the position of the last commit that came. */
  readonly next = new Map<string, number>();
  /** What was not sent yet. */
  queue: Item[] = [];

  constructor(task: string, wireName: string, number: number, role: Role) {
    [this.of, this.partition] = split(task);
    this.task = task;
    this.wireName = wireName;
    this.number = number;
    this.role = role;
  }

  /** Whether the epoch goes on. */
  get living(): boolean {
    return this.state !== "over";
  }

  /** The tables as assign lists them. */
  tableStreams(): TableStream[] {
    return [...this.tables.values()].flatMap(({ name, topic, kind, id }) =>
      kind === "records" || kind === "output" ? [] : [{ name, topic, kind, stream: id }],
    );
  }

  /** The sources as assign lists them. */
  sourceStreams(): SourceStream[] {
    return [...this.sources.values()].map(({ topic, id, position }) => ({
      topic,
      stream: id,
      position,
    }));
  }

  /** The outputs as assign lists them. */
  outputStreams(): OutputStream[] {
    return [...this.outputs.values()].map(({ topic, id }) => ({ topic, stream: id }));
  }
}

/** One that came whole, or is coming. */
export interface Commit {
  readonly id: number;
  readonly epoch: Epoch;
  readonly frames: Frame[];
  /** Positions by source topic, once it is whole. */
  next: ReadonlyMap<string, number>;
}

/** Take "words/0" apart. */
export function split(task: string): [set: string, partition: number] {
  const found = /^(.+)\/(\d+)$/s.exec(task);
  if (found === null) {
    throw new RangeError(`'${task}' is no task: write set/partition`);
  }
  const [, set = "", partition] = found;
  return [set, Number(partition)];
}
