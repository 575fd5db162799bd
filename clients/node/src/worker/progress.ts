/** How far tables have been restored: a bar on a terminal, a line of the log now and then elsewhere. */

import type { Event, RestoringEvent } from "../events.js";
import type { Logger } from "./logging.js";

const EVERY_MS = 10_000; // between two lines of the log
const REDRAW_MS = 100; // between two drawings of the bar
const WIDTH = 24;

/** What a bar is drawn on: process.stderr. */
export interface Terminal {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** Watches events, and says how the restoring of all tables goes on together. */
export class Progress {
  readonly #logger: Logger;
  readonly #bar: Bar | null;
  readonly #now: () => number;
  /** By task and table. */
  readonly #tables = new Map<string, Map<string, RestoringEvent>>();
  #logged: number | null = null;

  /** Without a terminal there is no bar. */
  constructor(
    logger: Logger,
    stream: Terminal | null,
    now: () => number = () => performance.now(),
  ) {
    this.#logger = logger;
    this.#bar = stream?.isTTY ? new Bar(stream, now) : null;
    this.#now = now;
  }

  /** Take one event. */
  readonly watch = (event: Event): void => {
    switch (event.type) {
      case "restoring":
        if (event.task.role !== "standby") {
          const tables = this.#tables.get(event.task.name) ?? new Map<string, RestoringEvent>();
          this.#tables.set(event.task.name, tables.set(event.table, event));
          this.#say();
        }
        break;
      case "restored":
      case "promoted":
        this.#forget(event.task.name, true);
        break;
      case "lost":
      case "revoking":
        this.#forget(event.task.name, false);
        break;
      case "assigned":
      case "restore":
      case "records":
      case "demoted":
      case "reset":
      case "waiting":
        break;
    }
  };

  /** Take the bar away. */
  close(): void {
    this.#bar?.close();
  }

  #forget(task: string, whole: boolean): void {
    if (this.#tables.delete(task) && this.#tables.size === 0) {
      this.close();
      if (this.#logged !== null && whole) {
        this.#logger.info({}, "all tables are restored");
      }
      this.#logged = null;
    }
  }

  #say(): void {
    const { done, text } = summary(
      [...this.#tables.values()].flatMap((each) => [...each.values()]),
    );
    if (this.#bar !== null) {
      this.#bar.show(done, text);
      return;
    }
    const now = this.#now();
    if (this.#logged === null) {
      this.#logged = now; // what is over within seconds is not worth a line
    } else if (now - this.#logged >= EVERY_MS) {
      this.#logged = now;
      this.#logger.info({ done }, `restoring ${Math.floor(done * 100)} %: ${text}`);
    }
  }
}

/** Add up: how much is done, from 0 to 1; tables, time to go, records, records a second. */
export function summary(tables: readonly RestoringEvent[]): { done: number; text: string } {
  const sum = (of: (each: RestoringEvent) => number): number =>
    tables.reduce((all, each) => all + of(each), 0);
  const records = sum((each) => each.records);
  const left = sum((each) => Math.max(0, each.remaining));
  const rate = sum((each) => each.rate);
  const done = records + left > 0 ? records / (records + left) : 1;
  const waits = tables.find(({ waitsFor }) => waitsFor !== "")?.waitsFor;
  const eta = rate > 0 ? `${duration(left / rate)} to go` : "time to go not known";
  const toGo = waits === undefined ? eta : `waits for ${waits}`;
  const what = `${tables.length} table${tables.length === 1 ? "" : "s"}`;
  return {
    done,
    text: `${what}, ${toGo}, ${grouped(records)} records, ${grouped(rate)} records/s`,
  };
}

/** Say a time in two units at most. */
export function duration(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < 60) {
    return `${whole} s`;
  }
  const minutes = Math.floor(whole / 60);
  return minutes < 60
    ? `${minutes} min ${whole % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function grouped(number: number): string {
  return number.toLocaleString("en-US");
}

/** One line about everything that is being restored. */
class Bar {
  readonly #stream: Terminal;
  readonly #now: () => number;
  #drawn = Number.NEGATIVE_INFINITY;
  #width = 0;

  constructor(stream: Terminal, now: () => number) {
    this.#stream = stream;
    this.#now = now;
  }

  show(done: number, text: string): void {
    const now = this.#now();
    if (now - this.#drawn < REDRAW_MS) {
      return;
    }
    this.#drawn = now;
    const full = Math.floor(done * WIDTH);
    const percent = String(Math.floor(done * 100)).padStart(3);
    const bar = `${"#".repeat(full)}${".".repeat(WIDTH - full)}`;
    const line = `restoring [${bar}] ${percent} % ${text}`;
    const room = (this.#stream.columns || 80) - 1; // a second line would stay there
    this.#stream.write(`\r${line.padEnd(this.#width).slice(0, room)}`);
    this.#width = Math.min(line.length, room);
  }

  close(): void {
    if (this.#width > 0) {
      this.#stream.write(`\r${" ".repeat(this.#width)}\r`);
      this.#width = 0;
    }
  }
}
