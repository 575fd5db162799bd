/**
 * The states of a task as the worker sees them. Everything that affects transitions is here.
 *
 * The table below says what may happen when; what it does not know is an error and changes nothing.
 * spec/PROTOCOL.md has the same table in words.
 *
 *     assign -> opening --opened--> restoring --restored--> restored --ready--> running
 *                                       |  promoted (standby)          ^
 *                                       +--------> promoted --ready----+
 *     any of these --revoke--> revoking --released--> ended; any --lost--> ended
 *
 * Restore frames may come from `opened` on for as long as the epoch lasts: source tables, global
 * tables and standbys are followed for ever. Records come only while running. After a reset a
 * running task is restored once more; what was delivered before may be committed meanwhile.
 */

import { FrameKind } from "./codes.js";
import type { OutputStream, SourceStream, TableStream } from "./messages.js";

/** Where a task epoch stands. */
export type State =
  | "opening"
  | "restoring"
  | "restored"
  | "promoted"
  | "running"
  | "revoking"
  | "ended";

/** What can happen to a task epoch: from the sidecar, and from user code (the second line). */
export type On =
  | "restoreFrame"
  | "recordsFrame"
  | "restoring"
  | "restoredAll"
  | "reset"
  | "promote"
  | "demote"
  | "revoke"
  | "lost"
  | "opened"
  | "ready"
  | "commit"
  | "release";

export const TRANSITIONS: Readonly<Record<State, Readonly<Partial<Record<On, State>>>>> = {
  opening: { opened: "restoring", revoke: "revoking", lost: "ended" },
  restoring: {
    restoreFrame: "restoring",
    restoring: "restoring",
    restoredAll: "restored",
    reset: "restoring",
    opened: "restoring",
    promote: "ended",
    revoke: "revoking",
    lost: "ended",
  },
  restored: {
    restoreFrame: "restored",
    restoring: "restored",
    reset: "restored",
    opened: "restored",
    restoredAll: "restored",
    ready: "running",
    commit: "restored",
    revoke: "revoking",
    lost: "ended",
  },
  promoted: {
    restoreFrame: "promoted",
    restoring: "promoted",
    reset: "promoted",
    opened: "promoted",
    restoredAll: "restored",
    ready: "running",
    revoke: "revoking",
    lost: "ended",
  },
  running: {
    restoreFrame: "running",
    recordsFrame: "running",
    restoring: "running",
    restoredAll: "restored",
    reset: "running",
    opened: "running",
    commit: "running",
    demote: "ended",
    revoke: "revoking",
    lost: "ended",
  },
  revoking: { commit: "revoking", release: "ended", lost: "ended" },
  ended: {},
};

/** A task under one epoch, as events carry it. A new epoch is a new object: compare with ===. */
export interface Task {
  /** What the sidecar calls it; compare it, do not parse it. */
  readonly name: string;
  /** The set's name, or the table's for a global table. */
  readonly set: string;
  readonly partition: number;
  readonly role: "active" | "standby" | "global";
  readonly epoch: number;
  /** By name; .kind is changelog, source or global. */
  readonly tables: ReadonlyMap<string, TableStream>;
  /** By topic; .position is where records begin. */
  readonly sources: ReadonlyMap<string, SourceStream>;
  /** By topic. */
  readonly outputs: ReadonlyMap<string, OutputStream>;
}

/** Shared by all batches of one stream; broken when they must not be used any more. */
export interface Fence {
  broken: boolean;
}

/** One stream of an epoch: what came on it, and what may still be sent. */
export interface Stream {
  readonly id: number;
  readonly of: TaskState;
  /** The table's name, or the topic of a source or output. */
  readonly name: string;
  readonly topic: string;
  /** What travels on it. Nothing comes on one of writes, which is an output's. */
  readonly kind: FrameKind;
  fence: Fence;
  /** Where the next frame must start; null: anywhere. */
  next: number | null;
  received: number;
  taken: number;
  granted: number;
  sent: number;
  limit: number;
  /** A gap was seen: everything is dropped until the sidecar opens the store anew. */
  refused: boolean;
}

/** One task epoch in the protocol core. */
export class TaskState {
  readonly task: Task;
  state: State;
  /** The id that opened or released answers. */
  request: number;
  readonly streams: Stream[] = [];
  /** Tables that wait for opened after a reset, with the request's id. */
  readonly resets = new Map<string, number>();
  /** The ids that ready answers, oldest first. */
  readonly restored: number[] = [];
  /** Records wait: from a reset until the next restored is answered. */
  holding = false;
  /** A restored has come since the last reset. */
  whole = true;
  /** Commits without an answer. */
  commits = 0;
  /** A commit has failed, or user code: lost is on its way, and nothing of it is processed. */
  failed = false;
  /** It was released, and not lost since: what was committed still belongs into the stores. */
  released = false;
  /** The active that demoted has made this copy of: what it committed belongs into the stores. */
  was: Task | null = null;

  constructor(task: Task, state: State, request: number) {
    this.task = task;
    this.state = state;
    this.request = request;
  }

  get ended(): boolean {
    return this.state === "ended";
  }

  allows(on: On): boolean {
    return TRANSITIONS[this.state][on] !== undefined;
  }

  /** Make the transition; false, and nothing changed, when the table does not know it. */
  go(on: On): boolean {
    const after = TRANSITIONS[this.state][on];
    if (after === undefined) {
      return false;
    }
    this.state = after;
    this.released = on === "release";
    if (after === "ended") {
      // Promoted or demoted, a task goes on from its position: rows that are queued are good.
      const goesOn = on === "promote" || on === "demote";
      for (const stream of this.streams) {
        stream.fence.broken = stream.kind === FrameKind.Records || !goesOn;
      }
    }
    return true;
  }

  /** Find the stream of a table. */
  table(name: string): Stream | undefined {
    return this.streams.find((each) => each.kind === FrameKind.Restore && each.name === name);
  }
}
