/** Frames of a worker as a sidecar reads them: of no task's, and so of no epoch's. */

import { Batch } from "../batch.js";
import type { Frame } from "../frames.js";
import type { Task } from "../tasks.js";

/** For batches, which have to have a task. */
export const NOBODY: Task = {
  name: "",
  set: "",
  partition: 0,
  role: "active",
  epoch: 1,
  tables: new Map(),
  sources: new Map(),
  outputs: new Map(),
};

/** The records of a frame, each made by what is given its batch and its row. */
export function recordsOf<T>(frame: Frame, make: (batch: Batch, row: number) => T): T[] {
  const batch = new Batch(frame, NOBODY, "", "");
  return Array.from({ length: batch.length }, (_, row) => make(batch, row));
}
