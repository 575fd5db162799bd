/**
 * Records that wait for a table which is being replayed anew. Pure.
 *
 * From `reset` until the task's next `restored` the records that user code has not taken yet are
 * held; for a global table those of every task.
 *
 * INVARIANT: no record is processed against a table that is not whole.
 */

import type { Event, RecordsEvent } from "./events.js";
import type { EventQueue } from "./queue.js";
import type { Task, TaskState } from "./tasks.js";

/** Keeps records back, in order. */
export class Hold {
  readonly #queue: EventQueue;
  #held: RecordsEvent[] = [];

  constructor(queue: EventQueue) {
    this.#queue = queue;
  }

  /** A table of the task was reset: its queued records wait, or all when it is global. */
  begin(state: TaskState): void {
    state.holding = true;
    state.whole = false;
    const everything = state.task.role === "global";
    this.#queue.drop(
      (event) => event.type === "records" && (everything || event.task === state.task),
      (event) => {
        if (event.type === "records") {
          this.#held.push(event);
        }
      },
    );
  }

  /** Something became whole: put back what no longer waits. */
  goOn(tasks: Iterable<TaskState>): void {
    const waiting = new Set<Task>();
    for (const state of tasks) {
      if (state.task.role === "global" && (state.holding || state.state !== "running")) {
        return;
      }
      if (state.holding) {
        waiting.add(state.task);
      }
    }
    const held = this.#held;
    this.#held = [];
    for (const event of held) {
      if (waiting.has(event.task)) {
        this.#held.push(event);
      } else {
        this.#queue.put(event);
      }
    }
  }

  /** The task is revoked or lost. */
  drop(task: Task, dropped: (event: Event) => void): void {
    const held = this.#held;
    this.#held = held.filter((event) => event.task !== task);
    for (const event of held) {
      if (event.task === task) {
        dropped(event);
      }
    }
  }
}
