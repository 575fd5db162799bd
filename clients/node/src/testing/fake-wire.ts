/**
 * One websocket of a FakeSidecar: what is sent to a worker, what came of it and nobody took yet.
 *
 * Nothing is sent by itself but credit, which is given back as frames arrive.
 */

import { decode, encode } from "../control.js";
import { sentCode } from "../dial.js";
import { type Frame, parse } from "../frames.js";
import type { Draft, Message, MessageOf, Window } from "../messages.js";
import { Signal } from "../signal.js";
import { found, heard, missing } from "./patience.js";

/** The latest limits that a worker gave, put together. */
export interface Granted {
  connection: number;
  readonly streams: Map<number, number>;
}

/** What is needed of a websocket of the ws package. */
export interface Websocket {
  readonly readyState: number;
  readonly OPEN: number;
  on(event: "message", call: (data: Buffer, isBinary: boolean) => void): unknown;
  on(event: "close", call: (code: number) => void): unknown;
  once(event: "pong", call: () => void): unknown;
  send(data: string | Uint8Array): void;
  ping(): void;
  close(code: number, reason?: string): void;
  terminate(): void;
}

export class FakeWire {
  /** Give no credit back from now on. */
  withholdCredit = false;
  readonly granted: Granted = { connection: 0, streams: new Map() };
  readonly #websocket: Websocket;
  readonly #window: Window;
  readonly #timeoutMs: number;
  readonly #arrived: (Message | Frame)[] = [];
  readonly #changed = new Signal();
  readonly #received = new Map<number, number>();
  #bytes = 0;
  readonly #closed: Promise<number | null>;
  #gone = "";

  constructor(websocket: Websocket, window: Window, timeoutMs: number) {
    this.#websocket = websocket;
    this.#window = window;
    this.#timeoutMs = timeoutMs;
    websocket.on("message", (data, isBinary) => this.#take(data, isBinary));
    this.#closed = new Promise((resolve) => {
      websocket.on("close", (code) => {
        this.#gone ||= "the worker went away";
        resolve(sentCode(code));
        this.#changed.fire();
      });
    });
  }

  /** Whether the connection is over. */
  get ended(): boolean {
    return this.#gone !== "";
  }

  /** Send a control message. */
  send(message: Draft): void {
    this.sendRaw(encode(message));
  }

  /** Send a websocket message as it is: a string as text, bytes as a frame. */
  sendRaw(data: string | Uint8Array): void {
    if (this.#websocket.readyState === this.#websocket.OPEN) {
      this.#websocket.send(data);
    }
  }

  /** Wait for the next message of a type and take it; others stay. */
  expect<T extends Message["type"]>(type: T): Promise<MessageOf<T>> {
    const is = (each: Message | Frame): each is MessageOf<T> =>
      "type" in each && each.type === type;
    return this.#found(() => {
      const message = this.#arrived.find(is);
      return message === undefined ? undefined : this.#remove(message);
    }, type);
  }

  /** Wait until something that arrived makes the condition true. */
  async until(condition: () => boolean): Promise<void> {
    await this.#found(() => (condition() ? true : undefined), "such message");
  }

  /** See that the worker has read everything and has nothing to say: a round trip. */
  async expectNothing(): Promise<void> {
    const pong = new Signal();
    this.#websocket.once("pong", () => pong.fire());
    this.#websocket.ping();
    if (!(await heard(pong, this.#timeoutMs))) {
      throw missing("the worker does not read");
    }
    if (this.#arrived.length > 0) {
      throw missing(`the worker says ${this.#arrived.map(nameOf).join(", ")}`);
    }
  }

  /** What arrived and was not taken. Credit and progress are not kept. */
  pending(): (Message | Frame)[] {
    return [...this.#arrived];
  }

  /** Close the connection with a code, and wait for its end. */
  async close(code = 1001, reason = ""): Promise<void> {
    this.#websocket.close(code, reason);
    await this.#closed;
  }

  /** End the connection without a close code, as a crash does. */
  async cut(): Promise<void> {
    this.#websocket.terminate();
    await this.#closed;
  }

  /** Wait for the worker's close and give its code; null: it ended without one. */
  async closed(): Promise<number | null> {
    const end = () => (this.ended ? this.#closed : undefined);
    return await found(end, this.#changed, "end of the connection", this.#timeoutMs);
  }

  /** Take the frames of a commit. */
  protected frames(commit: number): Frame[] {
    const frames = this.#arrived.filter(
      (each): each is Frame => !("type" in each) && each.base === commit,
    );
    return frames.map((each) => this.#remove(each));
  }

  #found<T>(find: () => T | undefined, what: string): Promise<T> {
    return found(
      () => {
        const value = find();
        if (value === undefined && this.ended) {
          throw missing(`${this.#gone} before there was a ${what}`);
        }
        return value;
      },
      this.#changed,
      `${what} of the worker`,
      this.#timeoutMs,
    );
  }

  #remove<T extends Message | Frame>(what: T): T {
    this.#arrived.splice(this.#arrived.indexOf(what), 1);
    return what;
  }

  #take(data: Buffer, isBinary: boolean): void {
    try {
      const item = isBinary ? parse(data) : decode(data.toString());
      if (item === undefined) {
        return;
      }
      if (!("type" in item)) {
        this.#giveBack(item);
        this.#arrived.push(item);
      } else if (item.type === "credit") {
        this.#grant(item);
      } else if (item.type !== "progress") {
        this.#arrived.push(item);
      }
    } catch (error) {
      this.#gone = `the worker broke the protocol (${String(error)})`;
      this.#websocket.close(1011);
    }
    this.#changed.fire();
  }

  #grant({ connection, streams }: MessageOf<"credit">): void {
    this.granted.connection = Math.max(this.granted.connection, connection);
    for (const [stream, limit] of streams) {
      this.granted.streams.set(stream, limit);
    }
  }

  #giveBack({ data, stream }: Frame): void {
    const received = (this.#received.get(stream) ?? 0) + data.length;
    this.#bytes += data.length;
    this.#received.set(stream, received);
    if (!this.withholdCredit) {
      this.send({
        type: "credit",
        connection: this.#bytes + this.#window.connection,
        streams: new Map([[stream, received + this.#window.stream]]),
      });
    }
  }
}

function nameOf(item: Message | Frame): string {
  return "type" in item ? JSON.stringify(item) : `a frame of ${item.count} records`;
}
