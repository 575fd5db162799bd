/**
 * Which tasks this worker has, and whether their tables are whole.
 *
 * Flow: take() gets each event once Tables has acted on it; the runtime asks what may be read.
 *
 * INVARIANT: a row that is not there yet is never taken for a row that does not exist.
 */

import { Code } from "../codes.js";
import type { Connection } from "../connection.js";
import { StoreError, UsageError } from "../errors.js";
import type { Event } from "../events.js";
import type { Tables, TableView } from "../tables.js";
import type { Task } from "../tasks.js";

const LOST = "connection_lost";

export class Whole {
  readonly #known = new Map<string, Task>();
  /** Tasks that are not whole yet. */
  readonly #opening = new Set<string>();
  /** Global tasks that are not whole, or lost and not back. */
  readonly #gaps = new Set<string>();
  /** Of the global tables, as of the last event but records. */
  readonly #globals = new Map<string, readonly TableView[]>();
  /** The sidecar waits for nothing. */
  #settled = false;

  /** Whether nothing is being replayed into what handlers of the task may read. */
  of(task: Task): boolean {
    return this.#gaps.size === 0 && !this.#opening.has(task.name);
  }

  /** Whether everything is whole. */
  get isReady(): boolean {
    return this.#opening.size === 0 && (this.#known.size > 0 || this.#settled);
  }

  take(event: Event, conn: Connection): void {
    if (event.type !== "records" && event.type !== "restore" && event.type !== "restoring") {
      this.#globals.clear();
    }
    switch (event.type) {
      case "assigned":
        this.#assigned(event.task);
        break;
      case "restored":
        if (conn.whole(event.task)) {
          this.#opening.delete(event.task.name);
          this.#gaps.delete(event.task.name);
        }
        break;
      case "promoted":
      case "demoted":
        this.#known.set(event.task.name, event.task);
        this.#opening.delete(event.task.name);
        break;
      case "lost":
        this.#lost(event.task, event.code === LOST);
        break;
      case "reset":
        this.#reset(event.task);
        break;
      case "waiting":
        this.#settled = event.code === Code.Ok;
        break;
      case "records":
      case "restore":
      case "restoring":
      case "revoking":
        break;
    }
  }

  /** The task is not here any more. */
  forget(task: Task): void {
    if (this.#known.get(task.name) === task) {
      this.#known.delete(task.name);
      this.#opening.delete(task.name);
      this.#gaps.delete(task.name);
    }
  }

  /** The tables of a task; null when a store of it has failed. */
  opened(tables: Tables, task: Task): ReadonlyMap<string, TableView> | null {
    try {
      return tables.of(task);
    } catch (error) {
      if (error instanceof UsageError || error instanceof StoreError) {
        return null;
      }
      throw error;
    }
  }

  /** What is here of a table, of actives and standbys. */
  views(tables: Tables, name: string): readonly TableView[] {
    return this.#views(tables, name, [...this.#known.values()]);
  }

  /** All partitions of a global table. Throws StoreError when one is not whole. */
  globals(tables: Tables, name: string): readonly TableView[] {
    const found = this.#globals.get(name);
    if (found !== undefined) {
      return found;
    }
    const tasks = [...this.#known.values()].filter(
      (task) => task.role === "global" && task.tables.has(name),
    );
    const views = this.#views(tables, name, tasks);
    if (this.#gaps.size > 0 || views.length < tasks.length) {
      throw new StoreError(`global table '${name}' is being restored`);
    }
    this.#globals.set(name, views);
    return views;
  }

  #views(tables: Tables, name: string, tasks: readonly Task[]): TableView[] {
    return tasks.flatMap((task) => {
      // Without tables it is being opened, or has failed.
      const view = this.opened(tables, task)?.get(name);
      return view === undefined ? [] : [view];
    });
  }

  #assigned(task: Task): void {
    this.#settled = true; // so the group is, also when all of its tasks go again
    this.#known.set(task.name, task);
    this.#opening.delete(task.name);
    if (task.role !== "standby") {
      this.#opening.add(task.name);
    }
    if (task.role === "global") {
      this.#gaps.add(task.name);
    }
  }

  #lost(task: Task, disconnected: boolean): void {
    if (disconnected) {
      this.#settled = false;
    }
    this.forget(task);
    if (task.role === "global" && !disconnected) {
      this.#gaps.add(task.name);
    }
  }

  #reset(task: Task): void {
    if (task.role === "standby") {
      return;
    }
    this.#opening.add(task.name); // until the next restored
    if (task.role === "global") {
      this.#gaps.add(task.name);
    }
  }
}
