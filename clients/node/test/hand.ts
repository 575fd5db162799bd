/** A protocol core with a hand on each side. */

import type { FrameKind } from "../src/codes.js";
import { decode, encode as write } from "../src/control.js";
import { type Columns, encode } from "../src/encode.js";
import type { Event } from "../src/events.js";
import type { Draft, DraftOf, Message } from "../src/messages.js";
import { Protocol } from "../src/protocol.js";
import { EventQueue } from "../src/queue.js";
import type { Task } from "../src/tasks.js";

export const WELCOME: DraftOf<"welcome"> = {
  type: "welcome",
  re: 1,
  version: 1,
  session: "c1",
  sidecar: { name: "p", version: "1" },
  group: "g",
  guarantee: "at_least_once",
  limits: {
    maxFrame: 1 << 20,
    maxControl: 1 << 20,
    maxCommitBytes: 1 << 20,
    maxOutstandingCommits: 2,
  },
  credit: { connection: 1 << 20, stream: 1 << 20 },
  deadlines: { revokeMs: 1, workerGraceMs: 1, maxProcessingMs: 1 },
};

export const REVOKE: Draft = {
  type: "revoke",
  id: 3,
  task: "w/0",
  epoch: 1,
  deadlineMs: 10,
  code: "rebalance",
};

export function lost(task = "w/0"): Draft {
  return { type: "lost", task, epoch: 1, code: "fenced" };
}

export function restored(id: number, task = "w/0", epoch = 1): Draft {
  return { type: "restored", id, task, epoch };
}

export const ASSIGN: DraftOf<"assign"> = {
  type: "assign",
  id: 1,
  task: "w/0",
  set: "w",
  partition: 0,
  role: "active",
  epoch: 1,
  sources: [{ topic: "w", stream: 1, position: 5 }],
  tables: [
    { name: "t", topic: "t-log", kind: "changelog", stream: 2 },
    { name: "s", topic: "s-topic", kind: "source", stream: 3 },
  ],
  outputs: [{ topic: "o", stream: 4 }],
};

export const STANDBY: DraftOf<"assign"> = {
  type: "assign",
  id: 2,
  task: "w/1",
  set: "w",
  partition: 1,
  role: "standby",
  epoch: 1,
  tables: [{ name: "t", topic: "l", kind: "changelog", stream: 9 }],
};

export function helloOf(window: number): DraftOf<"hello"> {
  const client = { name: "t", version: "1" };
  const credit = { connection: window, stream: window };
  return { type: "hello", id: 1, versions: [1], client, maxFrame: 1 << 20, credit, outputs: ["o"] };
}

/** What leaves: a message, or a frame. */
export type Sent = Message | Uint8Array;

export class Hand {
  readonly queue = new EventQueue();
  readonly protocol: Protocol;

  constructor(window = 1000) {
    this.protocol = new Protocol(helloOf(window), this.queue);
    this.sent();
    this.send(WELCOME);
  }

  send(...messages: Draft[]): void {
    for (const message of messages) {
      this.protocol.receive(write(message));
    }
  }

  /** Send a frame of count records from base on; say how long it is. */
  frame(
    kind: FrameKind,
    stream: number,
    base: number,
    more: Partial<Columns> & { count?: number } = {},
  ): number {
    const { count = 1, ...rest } = more;
    const rows = Array.from({ length: count }, (_, i) => Buffer.from(String(i)));
    const next = base + count;
    const data = encode({ kind, stream, epoch: 1, base, next, keys: rows, values: rows, ...rest });
    this.protocol.receive(data);
    return data.length;
  }

  events(): Event[] {
    const events: Event[] = [];
    for (let event = this.protocol.take(); event !== null; event = this.protocol.take()) {
      events.push(event);
    }
    return events;
  }

  types(): string[] {
    return this.events().map((event) => event.type);
  }

  sent(): Sent[] {
    const sent: Sent[] = [];
    for (
      let data = this.protocol.nextOutgoing();
      data !== null;
      data = this.protocol.nextOutgoing()
    ) {
      const message = typeof data === "string" ? decode(data) : data;
      if (message !== undefined) {
        sent.push(message);
      }
    }
    return sent;
  }

  /** The errors that leave: what they answer, and why. */
  errors(): [re: number, code: string, stream: number][] {
    return this.sent().flatMap((each) =>
      "type" in each && each.type === "error"
        ? [[each.re, each.code, each.stream] as [number, string, number]]
        : [],
    );
  }

  /** What leaves, by type; frames as "frame". */
  kinds(): string[] {
    return this.sent().map((each) => ("type" in each ? each.type : "frame"));
  }

  /** The task of the only event. */
  task(type: Event["type"]): Task {
    const events = this.events();
    const [event] = events;
    if (events.length !== 1 || event === undefined || event.type !== type || !("task" in event)) {
      throw new Error(`there are ${events.map((each) => each.type)}, not one ${type}`);
    }
    return event.task;
  }

  /** Bring w/0 to where records flow. */
  running(): Task {
    this.send(ASSIGN);
    const task = this.task("assigned");
    this.protocol.opened(task, { t: null, s: null });
    this.send({ type: "restored", id: 2, task: "w/0", epoch: 1 });
    this.events();
    this.protocol.ready(task);
    this.sent();
    return task;
  }
}
