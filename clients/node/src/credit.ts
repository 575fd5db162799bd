/**
 * Credit in both directions: cumulative byte limits for the connection and for each stream. Pure.
 *
 * Receiving: a frame's bytes count when user code takes its event, or at once when it is dropped.
 * The limit that the sidecar knows is what was taken plus the window. Limits go out when a quarter
 * of a window can be given back, and at the latest when user code waits for more.
 *
 * Sending: any positive credit permits one frame of any allowed size.
 */

import { ProtocolError } from "./errors.js";
import type { CreditMessage, Window } from "./messages.js";
import type { Stream } from "./tasks.js";

/** What the sidecar may still send. */
export class Receiving {
  readonly #window: Window;
  #received = 0;
  #taken = 0;
  #granted: number;
  /** Streams with bytes taken and not granted anew. */
  readonly #behind = new Set<Stream>();
  #due = false;

  constructor(window: Window) {
    this.#window = window;
    this.#granted = window.connection;
  }

  /** Give a new stream its first window. */
  open(stream: Stream): void {
    stream.granted = this.#window.stream;
  }

  /** Count a frame that came. Throws ProtocolError when the credit did not allow it. */
  received(size: number, stream: Stream | undefined): void {
    let over = this.#received >= this.#granted;
    if (stream !== undefined && !stream.of.ended) {
      over ||= stream.received >= stream.granted;
      stream.received += size;
    }
    if (over) {
      throw new ProtocolError("the sidecar sent more than its credit", "credit_overrun");
    }
    this.#received += size;
  }

  /** Count a frame that was taken or dropped; with now the limits go out without waiting. */
  taken(size: number, stream: Stream | undefined, now: boolean): void {
    this.#taken += size;
    const behind = this.#taken + this.#window.connection - this.#granted;
    this.#due ||= now || behind >= Math.floor(this.#window.connection / 4);
    if (stream !== undefined && !stream.of.ended) {
      stream.taken += size;
      this.#behind.add(stream);
      const itsOwn = stream.taken + this.#window.stream - stream.granted;
      this.#due ||= itsOwn >= Math.floor(this.#window.stream / 4);
    }
  }

  /** User code waits for more: whatever was taken is to be granted now. */
  idle(): boolean {
    this.#due ||= this.#taken + this.#window.connection > this.#granted;
    return this.#due;
  }

  /** Make the message that is due, if one is. */
  grant(): CreditMessage | null {
    if (!this.#due) {
      return null;
    }
    this.#due = false;
    const streams = new Map<number, number>();
    for (const stream of this.#behind) {
      if (!stream.of.ended) {
        stream.granted = stream.taken + this.#window.stream;
        streams.set(stream.id, stream.granted);
      }
    }
    this.#behind.clear();
    this.#granted = this.#taken + this.#window.connection;
    return { type: "credit", connection: this.#granted, streams };
  }
}

/** What we may still send. */
export class Sending {
  readonly #first: number;
  #limit: number;
  #sent = 0;

  constructor(window: Window) {
    this.#limit = window.connection;
    this.#first = window.stream;
  }

  /** Give a new stream its first limit. */
  open(stream: Stream): void {
    stream.limit = this.#first;
  }

  /** Take new limits. One that goes down, or of an unknown stream, is late and ignored. */
  raise(message: CreditMessage, streams: ReadonlyMap<number, Stream>): void {
    this.#limit = Math.max(this.#limit, message.connection ?? 0);
    for (const [id, limit] of message.streams ?? []) {
      const stream = streams.get(id);
      if (stream !== undefined) {
        stream.limit = Math.max(stream.limit, limit);
      }
    }
  }

  /** Take the credit of one frame; false when it must wait. */
  spend(stream: Stream, size: number): boolean {
    if (stream.sent >= stream.limit || this.#sent >= this.#limit) {
      return false;
    }
    stream.sent += size;
    this.#sent += size;
    return true;
  }
}
