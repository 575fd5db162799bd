/**
 * A websocket without a socket: two ends in one event loop, for tests that need no network.
 *
 * pipe() gives both ends. What one end sends the other's listener gets, in order and never lost; a
 * close reaches both ends behind what was sent before it, with code and reason. Nothing is bounded:
 * the protocol's credit bounds what is on its way.
 *
 * INVARIANT: a listener is never called inside a call of its own side, as with a real socket.
 */

import type { Closed, Listener, Socket } from "../dial.js";

/** What arrives: a message, or the end. */
type Arrived = string | Uint8Array | Closed;

/** One end. Fits what a Connection needs of a websocket. */
export class PipeEnd implements Socket {
  #other: PipeEnd = this;
  #listener: Listener | null = null;
  #arrived: Arrived[] = [];
  #due = false;
  #over = false;

  /** Whether either end has closed. */
  get over(): boolean {
    return this.#over;
  }

  /** Say who gets what comes, and what has come already. */
  listen(listener: Listener): void {
    this.#listener = listener;
    this.#deliver();
  }

  /** Send a text or binary message; after the end nothing happens, which closed() tells. */
  send(message: string | Uint8Array): void {
    if (!this.#over) {
      this.#other.#take(message);
    }
  }

  /** Close both ends. Does nothing when they are closed. */
  close(code = 1000, reason = ""): void {
    this.#end({ code, reason, tooLarge: false });
  }

  /** End both ends without a close code, as a crash does. */
  cut(): void {
    this.#end({ code: null, reason: "", tooLarge: false });
  }

  /** Make two ends that are joined. */
  static joined(): [PipeEnd, PipeEnd] {
    const [one, other] = [new PipeEnd(), new PipeEnd()];
    one.#other = other;
    other.#other = one;
    return [one, other];
  }

  #end(how: Closed): void {
    if (!this.#over) {
      for (const end of [this, this.#other]) {
        end.#over = true;
        end.#take(how);
      }
    }
  }

  #take(what: Arrived): void {
    this.#arrived.push(what);
    this.#deliver();
  }

  #deliver(): void {
    const listener = this.#listener;
    if (listener === null || this.#due || this.#arrived.length === 0) {
      return;
    }
    this.#due = true;
    queueMicrotask(() => {
      this.#due = false;
      const arrived = this.#arrived;
      this.#arrived = [];
      for (const each of arrived) {
        if (typeof each === "string" || each instanceof Uint8Array) {
          listener.message(each);
        } else {
          listener.closed(each);
        }
      }
    });
  }
}

/** Make two ends that are joined. */
export function pipe(): [PipeEnd, PipeEnd] {
  return PipeEnd.joined();
}
