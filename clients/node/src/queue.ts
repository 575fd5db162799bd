/**
 * The queue between the protocol core and user code. Pure.
 *
 * INVARIANT: events of one task leave in the order in which they happened.
 * INVARIANT: once an epoch is lost, no batch of it leaves.
 *
 * Credit bounds it: a data frame is granted anew only when its event has left.
 */

import type { AssignedEvent, Event, LostEvent, ResetEvent, RevokingEvent } from "./events.js";
import type { Task } from "./tasks.js";

/**
 * Where an event stands: 0 for overtakers and 1 for others; its number; and for what follows an
 * earlier event of its task directly, how far behind.
 */
type Place = readonly [group: number, number: number, behind: number];

interface Entry {
  readonly place: Place;
  readonly event: Event;
}

/**
 * Events that user code has not taken yet. Outlives connections.
 *
 * Each task has a line of its own, so an event is found in the time that the tasks take, however
 * many events wait behind one that is busy.
 */
export class EventQueue {
  /** By task, none empty; "" for events of no task. */
  readonly #lines = new Map<string, Entry[]>();
  #number = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Append an event. A new task does not wait for the records of others: it overtakes. */
  put(event: Event): void {
    if (event.type === "assigned") {
      this.overtake(event);
    } else {
      this.#number += 1;
      this.#append({ event, place: [1, this.#number, 0] });
    }
  }

  /** Put an event before all others but earlier ones of its task and earlier overtakers. */
  overtake(event: AssignedEvent | RevokingEvent | LostEvent | ResetEvent): void {
    const last = this.#lines.get(event.task.name)?.at(-1); // of any epoch
    this.#number += 1;
    if (last !== undefined) {
      const [group, number, behind] = last.place;
      this.#append({ event, place: [group, number, behind + 1] });
    } else {
      this.#append({ event, place: [0, this.#number, 0] });
    }
  }

  /** Take out the events that match; dropped is called with each, in order. */
  drop(match: (event: Event) => boolean, dropped: (event: Event) => void): void {
    const going: Entry[] = [];
    for (const [name, line] of [...this.#lines]) {
      const staying: Entry[] = [];
      for (const entry of line) {
        (match(entry.event) ? going : staying).push(entry);
      }
      if (staying.length === 0) {
        this.#lines.delete(name);
      } else if (staying.length < line.length) {
        this.#lines.set(name, staying);
      }
    }
    this.#size -= going.length;
    going.sort((a, b) => compare(a.place, b.place));
    for (const entry of going) {
      dropped(entry.event);
    }
  }

  /**
   * Remove the first event; null when there is none.
   *
   * With busy, the first one that it does not match. INVARIANT: no event passes an earlier one of
   * its task that stays.
   */
  take(busy?: (event: Event) => boolean): Event | null {
    let found: readonly [string, Entry[], Entry] | null = null;
    for (const [name, line] of this.#lines) {
      const head = line[0];
      if (head === undefined || (found !== null && compare(head.place, found[2].place) > 0)) {
        continue;
      }
      if (busy === undefined || !busy(head.event)) {
        found = [name, line, head];
      }
    }
    if (found === null) {
      return null;
    }
    const [name, line, head] = found;
    line.shift();
    this.#size -= 1;
    if (line.length === 0) {
      this.#lines.delete(name);
    }
    return head.event;
  }

  #append(entry: Entry): void {
    const name = "task" in entry.event ? entry.event.task.name : "";
    const line = this.#lines.get(name);
    if (line === undefined) {
      this.#lines.set(name, [entry]);
    } else {
      line.push(entry);
    }
    this.#size += 1;
  }
}

function compare(a: Place, b: Place): number {
  return a[0] - b[0] || a[1] - b[1] || a[2] - b[2];
}

/** Match what means nothing once a task is revoked or lost. */
export function uselessAfterEnd(task: Task): (event: Event) => boolean {
  return (event) => {
    switch (event.type) {
      case "restore":
      case "records":
      case "restoring":
      case "restored":
        return event.task === task;
      default:
        return false;
    }
  };
}

/** Match the queued rows of one table. */
export function rowsOf(task: Task, table: string): (event: Event) => boolean {
  return (event) => event.type === "restore" && event.task === task && event.table === table;
}
