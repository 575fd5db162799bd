/** The sidecar as a whole: one Kafka, at most one session, and events that wait to be handled. */

import { setTimeout } from "node:timers"; // the real one, whatever a test puts in its place
import type { Deadlines, Limits, Window } from "../../messages.js";
import type { Stream } from "./epoch.js";
import { Fault } from "./fault.js";
import { Kafka } from "./kafka.js";
import type { Session } from "./session.js";

export const LIMITS: Limits = {
  maxFrame: 16 << 20,
  maxControl: 1 << 20,
  maxCommitBytes: 16 << 20,
  maxOutstandingCommits: 2,
};
export const CREDIT: Window = { connection: 1 << 20, stream: 1 << 20 };
export const DEADLINES: Deadlines = {
  revokeMs: 10_000,
  workerGraceMs: 10_000,
  maxProcessingMs: 300_000,
};
const POLL_MS = 2; // between two looks at what makes no event, like a file
const TRACED = 40;

/** How messages are put onto the wire. */
export interface Manner {
  /** Bytes of a websocket fragment; 0: a message is one. */
  readonly fragment: number;
  /** With a ping between two fragments. */
  readonly pings: boolean;
  /** Bytes that are written at once; 0: all. */
  readonly chunk: number;
  /** Messages are kept until the manner changes, then written at once. */
  readonly glue: boolean;
}

/** The way to a worker. What comes from it is posted to the Sidecar. */
export interface Link {
  /** Send a text or binary message; never wait. */
  post(data: string | Uint8Array): void;
  /** Begin to close; the end is an event. */
  close(code: number, reason: string): void;
  /** End without a close code. */
  cut(): void;
  /** Write in another manner from now on. Throws where that means nothing. */
  change(manner: Manner): void;
  /** Send a ping with so many bytes. Throws where that means nothing. */
  ping(size: number): void;
}

/** The program under test. */
export interface WorkerUnderTest {
  /** Exit code: 128 + signal when it was killed; null until it has ended. */
  readonly code: number | null;
  /** Say how it has ended. */
  ended(): string;
}

/** What the sidecar says in welcome, and what it looks like on the wire. */
export interface Settings {
  readonly group: string;
  readonly session: string;
  readonly limits: Limits;
  readonly credit: Window;
  readonly deadlines: Deadlines;
  /** Tasks have names that cannot be taken apart. */
  readonly oddNames: boolean;
  /** Each message has a field that nobody knows. */
  readonly extra: boolean;
  /** Of every topic, for locate. */
  readonly partitions: number;
  /** How long a worker may take for each thing that it owes. */
  readonly patienceMs: number;
}

const SETTINGS: Settings = {
  group: "test",
  session: "test",
  limits: LIMITS,
  credit: CREDIT,
  deadlines: DEADLINES,
  oddNames: false,
  extra: false,
  partitions: 1,
  patienceMs: 10_000,
};

/** How a commit may end. */
export type Ending = "committed" | "aborted" | "unknown" | "stale" | "error";

/** How a commit ends. */
export interface Fate {
  readonly ending: Ending;
  readonly code: string;
  /** Kafka has it, whatever the worker is told. */
  readonly lands: boolean;
}

export interface Until {
  /** Instead of the sidecar's patience. */
  readonly withinMs?: number;
  /** Look every few milliseconds, for what makes no event. */
  readonly poll?: boolean;
}

/** State that outlives connections. */
export class Sidecar {
  readonly settings: Settings;
  readonly kafka = new Kafka();
  session: Session | null = null;
  worker: WorkerUnderTest | null = null;
  /** Commits get no answer, and do not land. */
  answersHeld = false;
  /** How the next commits end; without any they are committed. */
  readonly fates: Fate[] = [];
  creditHeld = false;
  /** What credit is due for while it is held. */
  owed: Stream[] = [];
  /** Says whether an error of the worker, as it stands on the wire, is wanted now. */
  hears: ((error: Readonly<Record<string, unknown>>) => boolean) | null = null;
  /** Types of messages that must not come now. */
  forbidden: readonly string[] = [];
  /** The end of the connection or of the worker is expected now. */
  leaving = false;
  /** Of all connections. */
  epochs = 0;
  readonly #traced: string[] = [];
  #events: (() => void)[] = [];
  #wake: () => void = () => {};

  constructor(settings: Partial<Settings> = {}) {
    this.settings = { ...SETTINGS, ...settings };
  }

  /** The present session, which may have ended. */
  get now(): Session {
    if (this.session === null) {
      throw new RangeError("there is no connection yet");
    }
    return this.session;
  }

  /** Whether everything that has happened is handled. */
  get quiet(): boolean {
    return this.#events.length === 0;
  }

  /** What was said lately, for people. */
  get traced(): readonly string[] {
    return this.#traced;
  }

  trace(line: string): void {
    this.#traced.push(line);
    if (this.#traced.length > TRACED) {
      this.#traced.shift();
    }
  }

  /** Queue what has happened; it is handled when somebody waits. */
  post(event: () => void): void {
    this.#events.push(event);
    this.#wake();
  }

  /** Handle what has happened. Throws Fault. */
  handle(): void {
    for (let event = this.#events.shift(); event !== undefined; event = this.#events.shift()) {
      event();
    }
  }

  /** Wait until something happens that is not handled, but not for longer. One may wait at a time. */
  change(ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (!this.quiet) {
        resolve();
        return;
      }
      const timer = setTimeout(() => this.#wake(), ms);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = () => {};
        resolve();
      };
    });
  }

  /** Handle events one by one until met. Throws Fault when it takes too long. */
  async until(want: string, met: () => boolean, how: Until = {}): Promise<void> {
    const { withinMs = this.settings.patienceMs, poll = false } = how;
    const end = performance.now() + withinMs;
    while (!met()) {
      this.#alive(want);
      const event = this.#events.shift();
      if (event !== undefined) {
        event();
        continue;
      }
      const left = end - performance.now();
      if (left <= 0) {
        throw new Fault(want, `nothing of it within ${withinMs} ms${this.#standing()}`);
      }
      await this.change(poll ? Math.min(left, POLL_MS) : left);
    }
  }

  /** Let time go by; what comes is checked. */
  async idle(ms: number): Promise<void> {
    const end = performance.now() + ms;
    const withinMs = ms + this.settings.patienceMs;
    const over = () => performance.now() >= end;
    await this.until("a worker that goes on", over, { withinMs, poll: true });
  }

  #alive(want: string): void {
    const { session, worker } = this;
    if (this.leaving || !this.quiet) {
      return; // its last words are on their way
    }
    if (worker !== null && worker.code !== null && session?.ended !== false) {
      throw new Fault(want, worker.ended());
    }
    if (session?.ended === true) {
      const how = session.code === 0 ? "without a close code" : `with ${session.code}`;
      throw new Fault(want, `the worker ended the connection ${how}`);
    }
  }

  /** Say what is known to stand still. */
  #standing(): string {
    const { session } = this;
    if (session === null || session.ended) {
      return "";
    }
    for (const { living, queue } of session.tasks.values()) {
      const stream = living ? queue[0]?.stream : undefined;
      if (stream && !session.maySend(stream)) {
        return (
          `; frames for ${stream.name} wait for the worker's credit (stream: sent ${stream.sent} ` +
          `of ${stream.limit}, connection: ${session.sent} of ${session.limit})`
        );
      }
    }
    return "";
  }
}
