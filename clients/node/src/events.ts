/**
 * The events of a connection: one ordered stream, told apart by `type`.
 *
 * Events of one task come in the order in which they happened. Revoking, lost and reset overtake:
 * the batches that they make useless are taken out of the queue, and nothing of a task's epoch
 * follows its lost.
 */

import type { Batch } from "./batch.js";
import type { Task } from "./tasks.js";

/** A task is this worker's. Open its stores and answer conn.opened(task, checkpoints). */
export interface AssignedEvent {
  readonly type: "assigned";
  readonly task: Task;
}

/** Rows of a table: apply them to its store, with batch.checkpoint, in one transaction. */
export interface RestoreEvent {
  readonly type: "restore";
  readonly task: Task;
  readonly table: string;
  readonly batch: Batch;
}

/** How far a replay has come. */
export interface RestoringEvent {
  readonly type: "restoring";
  readonly task: Task;
  readonly table: string;
  readonly records: number;
  readonly bytes: number;
  readonly rate: number;
  readonly remaining: number;
  /** -1 when it is not known. */
  readonly etaMs: number;
  /** What a replay waits for that stands still; "" for nothing. */
  readonly waitsFor: string;
}

/** All tables of the task are whole. Answer conn.ready(task); then records come. */
export interface RestoredEvent {
  readonly type: "restored";
  readonly task: Task;
}

/** Source records: process them and commit batch.nextOffset. */
export interface RecordsEvent {
  readonly type: "records";
  readonly task: Task;
  readonly topic: string;
  readonly batch: Batch;
}

/** The task moves away. Make the last commit and answer conn.release(task) in time. */
export interface RevokingEvent {
  readonly type: "revoking";
  readonly task: Task;
  readonly deadlineMs: number;
  readonly code: string;
}

/** The task is gone; nothing of it can be committed any more. Close its stores. */
export interface LostEvent {
  readonly type: "lost";
  readonly task: Task;
  readonly code: string;
  readonly message: string;
}

/** A standby has become the active: task is the new one. Answer conn.ready(task). */
export interface PromotedEvent {
  readonly type: "promoted";
  readonly task: Task;
  readonly was: Task;
}

/** An active has become a standby: task is the new one. */
export interface DemotedEvent {
  readonly type: "demoted";
  readonly task: Task;
  readonly was: Task;
}

/** One store is of no use. Wipe it and answer conn.opened(task, { [table]: null }). */
export interface ResetEvent {
  readonly type: "reset";
  readonly task: Task;
  readonly table: string;
  readonly code: string;
  readonly message: string;
}

/** What the sidecar waits for. Code ok: it is there. */
export interface WaitingEvent {
  readonly type: "waiting";
  readonly code: string;
  readonly message: string;
}

export type Event =
  | AssignedEvent
  | RestoreEvent
  | RestoringEvent
  | RestoredEvent
  | RecordsEvent
  | RevokingEvent
  | LostEvent
  | PromotedEvent
  | DemotedEvent
  | ResetEvent
  | WaitingEvent;
