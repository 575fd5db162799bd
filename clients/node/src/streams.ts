/**
 * The streams of one connection. Pure.
 *
 * INVARIANT: a stream belongs to one epoch for ever; a number is never used again in a connection.
 */

import { FrameKind } from "./codes.js";
import type { Receiving, Sending } from "./credit.js";
import { ProtocolError } from "./errors.js";
import { type State, type Stream, type Task, TaskState } from "./tasks.js";

/** Every stream that was ever given, also of epochs that are over. */
export class Streams {
  readonly byId = new Map<number, Stream>();
  /** From welcome on. */
  sending: Sending | null = null;
  readonly #receiving: Receiving;

  constructor(receiving: Receiving) {
    this.#receiving = receiving;
  }

  /** Begin an epoch with its streams; was is the epoch that it goes on from. */
  open(task: Task, state: State, request: number, was: TaskState | null): TaskState {
    const made = new TaskState(task, state, request);
    for (const source of task.sources.values()) {
      this.add(made, source.stream, source.topic, source.topic, FrameKind.Records, source.position);
    }
    for (const table of task.tables.values()) {
      // What others write goes on from its position; our changelog moved by our own commits.
      const old = table.kind === "changelog" ? undefined : was?.table(table.name);
      this.add(made, table.stream, table.name, table.topic, FrameKind.Restore, old?.next ?? null);
    }
    for (const output of task.outputs.values()) {
      this.add(made, output.stream, output.topic, output.topic, FrameKind.Writes, null);
    }
    return made;
  }

  /** Take a new stream. Throws ProtocolError when its number was given before. */
  add(
    of: TaskState,
    id: number,
    name: string,
    topic: string,
    kind: FrameKind,
    next: number | null,
  ): Stream {
    if (this.byId.has(id)) {
      throw new ProtocolError(`stream ${id} was given twice`);
    }
    const stream: Stream = {
      id,
      of,
      name,
      topic,
      kind,
      next,
      fence: { broken: false },
      received: 0,
      taken: 0,
      granted: 0,
      sent: 0,
      limit: 0,
      refused: false,
    };
    this.byId.set(id, stream);
    of.streams.push(stream);
    this.#receiving.open(stream);
    this.sending?.open(stream);
    return stream;
  }
}
