/**
 * What the demo measures a worker by: its process, and what happened to which task, and when. The
 * same as measure.py.
 *
 * STATE/pid is the process; STATE/events.jsonl has a line for each event. From the lines the demo
 * tells how long a take-over took and how much was replayed for it.
 */

import { mkdirSync, openSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Worker } from "pillion";
import type { Task } from "pillion/client";

/** Write the notes of a worker that is about to run. */
export function measure(worker: Worker, state: string): void {
  mkdirSync(state, { recursive: true });
  writeFileSync(join(state, "pid.new"), String(process.pid));
  renameSync(join(state, "pid.new"), join(state, "pid"));
  const notes = openSync(join(state, "events.jsonl"), "a");
  const fed = new Map<string, number>(); // the epoch in which a task's records came last

  const note = (event: string, task: Task, more: Record<string, unknown> = {}): void => {
    if (task.role !== "global") {
      const line = {
        at: Date.now() / 1000,
        event,
        task: task.name,
        partition: task.partition,
        ...more,
      };
      writeSync(notes, `${JSON.stringify(line)}\n`);
    }
  };

  worker.watch((event) => {
    switch (event.type) {
      case "assigned":
        note("assigned", event.task, { role: event.task.role });
        break;
      case "restore":
        if (event.table === "plane_stats") {
          note("restore", event.task, {
            records: event.batch.length,
            next: event.batch.nextOffset,
          });
        }
        break;
      case "restored":
      case "promoted":
        note("whole", event.task);
        break;
      case "records":
        if (fed.get(event.task.name) !== event.task.epoch) {
          fed.set(event.task.name, event.task.epoch);
          note("records", event.task);
        }
        break;
      case "revoking":
      case "lost":
      case "demoted":
        note("left", event.task);
        break;
      default:
    }
  });
}
