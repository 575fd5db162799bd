/** What a program is written with, and what it meets. */

export { Context, type Send } from "./context.js";
export type {
  EachCall,
  EveryCall,
  EveryOptions,
  HandlerOptions,
  ProcessCall,
  ReadTableOptions,
  Serdes,
  TableOptions,
} from "./declarations.js";
export { GlobalTable, Output, SourceTable, Table, Topic } from "./declared.js";
export type { BatchNews, CommitNews, Logger, RestoreNews, TaskNews } from "./logging.js";
export type { WorkerOptions } from "./options.js";
export {
  type DeadLetter,
  deadLetter,
  type Failure,
  HandlerFailed,
  type OnError,
  type Skip,
  type Stop,
  skip,
  stop,
  type Verdict,
} from "./policy.js";
export { Batch, type KafkaRecord } from "./records.js";
export type { ReadonlyTableRows, TableRows } from "./table-rows.js";
export { type LocatedHere, type StopOptions, Worker } from "./worker.js";
