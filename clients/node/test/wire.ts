/** A network and a clock in memory: a connection under test, and the sidecar's end of it. */

import assert from "node:assert/strict";
import { FrameKind } from "../src/codes.js";
import { Connection } from "../src/connection.js";
import { decode, encode as write } from "../src/control.js";
import { type Attempt, type Dial, type Listener, type Socket, unreachable } from "../src/dial.js";
import { encode } from "../src/encode.js";
import type { ConnectError } from "../src/errors.js";
import type { Event } from "../src/events.js";
import type { Draft, DraftOf, Message, MessageOf } from "../src/messages.js";
import { type ConnectOptions, options } from "../src/options.js";
import type { Clock } from "../src/signal.js";
import type { Task } from "../src/tasks.js";
import { ASSIGN, WELCOME } from "./hand.js";

/** Turns of the event loop until something holds; a test fails when it never does. */
export async function until(holds: () => boolean, what = "it"): Promise<void> {
  for (let turns = 0; !holds(); turns++) {
    assert.ok(turns < 1000, `${what} does not come`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Time that goes when a test says so. */
export class FakeClock implements Clock {
  /** The waits that are under way. */
  readonly sleeping: { readonly until: number; readonly ms: number; readonly wake: () => void }[] =
    [];
  #now = 0;

  now(): number {
    return this.#now;
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) {
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const wake = (): void => {
        const at = this.sleeping.indexOf(entry);
        if (at >= 0) {
          this.sleeping.splice(at, 1);
        }
        signal.removeEventListener("abort", wake);
        resolve();
      };
      const entry = { until: this.#now + ms, ms, wake };
      this.sleeping.push(entry);
      signal.addEventListener("abort", wake, { once: true });
    });
  }

  /** Wait until the connection sleeps, and let that time pass; say how long it was. */
  async pass(): Promise<number> {
    await until(() => this.sleeping.length > 0, "a pause");
    const [first] = this.sleeping;
    assert.ok(first !== undefined);
    this.#now = first.until;
    first.wake();
    return first.ms;
  }
}

/** The sidecar's end of one websocket. */
export class FakeWorker implements Socket {
  readonly #listener: Listener;
  /** What the worker has sent and nobody has looked at. */
  readonly sent: (string | Uint8Array)[] = [];
  /** The code with which the worker has closed. */
  closedWith: number | null = null;

  constructor(listener: Listener) {
    this.#listener = listener;
  }

  send(message: string | Uint8Array): void {
    this.sent.push(message);
  }

  close(code: number): void {
    if (this.closedWith === null) {
      this.closedWith = code;
      queueMicrotask(() => this.end(code));
    }
  }

  say(...messages: Draft[]): void {
    for (const message of messages) {
      this.#listener.message(write(message));
    }
  }

  raw(data: string | Uint8Array): void {
    this.#listener.message(data);
  }

  /** Close, or with null end the socket without a word. */
  end(code: number | null, tooLarge = false): void {
    this.#listener.closed({ code, reason: "", tooLarge });
  }

  /** Take what the worker has sent next. */
  next(): Message | Uint8Array {
    const data = this.sent.shift();
    assert.ok(data !== undefined, "the worker has sent nothing");
    const message = typeof data === "string" ? decode(data) : data;
    assert.ok(message !== undefined);
    return message;
  }

  /** Take the next message, which is of this type; credit before it is passed over. */
  expect<T extends Message["type"]>(type: T): MessageOf<T> {
    let message = this.next();
    while ("type" in message && message.type === "credit" && type !== "credit") {
      message = this.next();
    }
    assert.ok("type" in message && message.type === type, `${String(this.sent)}`);
    return message as MessageOf<T>;
  }
}

/** One attempt of the connection to reach a sidecar. */
export interface Dialled {
  readonly attempt: Attempt;
  accept(): FakeWorker;
  refuse(error?: ConnectError): void;
}

export class Wire {
  readonly clock = new FakeClock();
  readonly notices: string[] = [];
  readonly conn: Connection;
  /** Attempts that wait for their answer. */
  readonly dialled: Dialled[] = [];
  attempts = 0;

  constructor(given: ConnectOptions = {}, random = 0.5) {
    const dial: Dial = (attempt, listener) =>
      new Promise((resolve, reject) => {
        this.attempts += 1;
        const abort = (): void => reject(unreachable(attempt.where));
        attempt.signal.addEventListener("abort", abort, { once: true });
        const answered = (): void => attempt.signal.removeEventListener("abort", abort);
        this.dialled.push({
          attempt,
          refuse: (error = unreachable(attempt.where)) => {
            answered();
            reject(error);
          },
          accept: () => {
            answered();
            const worker = new FakeWorker(listener);
            resolve(worker);
            return worker;
          },
        });
      });
    const declared: ConnectOptions = {
      url: "ws://127.0.0.1:1",
      sets: [{ name: "w", sources: ["w"], tables: ["t", { name: "s", sourceTopic: "s-topic" }] }],
      outputs: ["o"],
      notice: (sentence) => this.notices.push(sentence),
      ...given,
    };
    this.conn = new Connection(
      options(declared, { dial, clock: this.clock, random: () => random }),
    );
  }

  /** Wait for the next attempt. */
  async dials(): Promise<Dialled> {
    await until(() => this.dialled.length > 0, "an attempt");
    const dialled = this.dialled.shift();
    assert.ok(dialled !== undefined);
    return dialled;
  }

  /** Accept the next attempt, and take its hello; with a welcome also answer it. */
  async accepts(welcome: Partial<DraftOf<"welcome">> | null = {}): Promise<FakeWorker> {
    const worker = (await this.dials()).accept();
    await until(() => worker.sent.length > 0, "hello");
    worker.expect("hello");
    if (welcome !== null) {
      worker.say({ ...WELCOME, ...welcome });
    }
    return worker;
  }

  /** The first connection, welcomed. */
  async opened(welcome: Partial<DraftOf<"welcome">> = {}): Promise<FakeWorker> {
    const [worker] = await Promise.all([this.accepts(welcome), this.conn.open()]);
    return worker;
  }

  /** The next event, which is of this type. */
  async event<T extends Event["type"]>(type: T): Promise<Extract<Event, { readonly type: T }>> {
    const event = await this.conn.next();
    assert.equal(event?.type, type);
    return event as Extract<Event, { readonly type: T }>;
  }

  /** Bring w/0 to where records flow. */
  async running(worker: FakeWorker): Promise<Task> {
    worker.say(ASSIGN);
    const { task } = await this.event("assigned");
    this.conn.opened(task, { t: null, s: null });
    worker.expect("opened");
    worker.say({ type: "restored", id: 2, task: "w/0", epoch: 1 });
    await this.event("restored");
    this.conn.ready(task);
    worker.expect("ready");
    return task;
  }
}

/** Send one record of w/0; say how long its frame is. */
export function records(worker: FakeWorker, base: number, value = Buffer.from("1")): number {
  const next = base + 1;
  const { Records } = FrameKind;
  const data = encode({
    kind: Records,
    stream: 1,
    epoch: 1,
    base,
    next,
    keys: [Buffer.from("k")],
    values: [value],
  });
  worker.raw(data);
  return data.length;
}
