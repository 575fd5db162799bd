/**
 * Keeps a connection: dials, serves it to its end, and dials again when the end allows it.
 *
 * INVARIANT: one protocol core for each websocket; what a former one had to say is never sent.
 */

import { readToken } from "./address.js";
import { CloseCode, Code, RECONNECT_FIRST_MS, RECONNECT_MAX_MS } from "./codes.js";
import type { Socket } from "./dial.js";
import {
  ConnectionLost,
  PillionError,
  SidecarUnreachable,
  sentence,
  UsageError,
} from "./errors.js";
import { Link } from "./link.js";
import type { WaitingMessage } from "./messages.js";
import type { Options } from "./options.js";
import type { Protocol } from "./protocol.js";
import { EventQueue } from "./queue.js";
import { Signal } from "./signal.js";

const NOTICE_AFTER_MS = 3000;
const FLUSH_WITHIN_MS = 2000;
const HANDSHAKE_MS = 5000;
// What is no trouble is not said to people.
const QUIET: ReadonlySet<string> = new Set([Code.Ok, Code.Joining, Code.Globals]);

export class Keeper {
  /** Something for user code. */
  readonly arrived = new Signal();
  /** The core of the newest websocket, which may have ended. */
  protocol: Protocol | null = null;
  /** Why there is no connection any more, and none will be made. */
  end: PillionError | null = null;
  /** User code takes nothing more. */
  stopping = false;

  readonly #options: Options;
  readonly #queue = new EventQueue();
  readonly #flushed = new Signal();
  readonly #welcomed = new Signal();
  /** Aborted when no connection is wanted any more: ends dials and waits. */
  readonly #leaving = new AbortController();
  #socket: Socket | null = null;
  #kept: Promise<void> | null = null;
  #closed: Promise<void> | null = null;
  #waiting: WaitingMessage | null = null;
  #dialledSince = 0;
  #connectedOnce = false;
  #noticed = false;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Make the first connection. Rejects with what makes it impossible. */
  async open(): Promise<void> {
    if (this.#kept !== null) {
      throw new UsageError("this connection was used already; call connect() again");
    }
    const { signal } = this.#options;
    signal?.throwIfAborted();
    signal?.addEventListener("abort", this.stop, { once: true });
    this.#kept = this.#keep();
    await this.#welcomed.wait();
    if (this.end === null && !this.stopping) {
      return;
    }
    await this.close();
    signal?.throwIfAborted();
    throw this.end ?? closedHere();
  }

  /** Send all that may go now. */
  send(): void {
    const { protocol } = this;
    if (protocol === null) {
      return;
    }
    while (this.#socket !== null) {
      const message = protocol.nextOutgoing();
      if (message === null) {
        break;
      }
      this.#socket.send(message);
    }
    if (protocol.flushed) {
      this.#flushed.fire();
    }
  }

  /** End the iteration. */
  readonly stop = (): void => {
    this.stopping = true;
    this.arrived.fire();
    this.#welcomed.fire();
  };

  /** Send what was said, as far as credit goes in time, and close. */
  close(): Promise<void> {
    this.stop();
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#options.signal?.removeEventListener("abort", this.stop);
    if (this.#socket !== null && this.protocol !== null && !this.protocol.flushed) {
      this.#flushed.clear();
      const enough = new AbortController();
      const late = this.#options.outside.clock.sleep(FLUSH_WITHIN_MS, enough.signal);
      await Promise.race([this.#flushed.wait(), late]);
      enough.abort();
    }
    this.#leaving.abort();
    this.#socket?.close(CloseCode.Done, "");
    await this.#kept;
    this.end ??= closedHere(); // never opened
  }

  // -- the keeper itself

  async #keep(): Promise<void> {
    try {
      this.end = await this.#untilTheEnd();
    } catch (error) {
      const failed = (): PillionError =>
        new PillionError(`the client failed: ${String(error)}; report it`, "internal", {
          cause: error,
        });
      this.end = error instanceof PillionError ? error : failed();
    }
    this.arrived.fire();
    this.#welcomed.fire();
    this.#flushed.fire();
  }

  async #untilTheEnd(): Promise<PillionError> {
    const { clock, random } = this.#options.outside;
    const leaving = this.#leaving.signal;
    this.#dialledSince = clock.now();
    for (let attempt = 0; !leaving.aborted; ) {
      const pause = (): number =>
        Math.min(RECONNECT_FIRST_MS * 2 ** attempt, RECONNECT_MAX_MS) * (0.8 + 0.4 * random());
      const link = new Link(this.#options, this.#queue, () => this.#came());
      try {
        await this.#dial(link);
      } catch (error) {
        if (!(error instanceof SidecarUnreachable)) {
          throw error;
        }
        await this.#unreachable(error, pause());
        attempt += 1;
        continue;
      }
      const end = await link.ended;
      this.#socket = null;
      link.protocol.closed(leaving.aborted && end instanceof ConnectionLost ? closedHere() : end);
      this.#flushed.fire();
      this.arrived.fire();
      if (!(end instanceof ConnectionLost)) {
        return end;
      }
      attempt = link.protocol.welcome === null ? attempt + 1 : 0;
      this.#dialledSince = clock.now();
      await clock.sleep(pause(), leaving);
    }
    return closedHere();
  }

  async #dial(link: Link): Promise<void> {
    const { where, token, maxFrame, outside } = this.#options;
    const left = this.#left();
    const timeoutMs = left === null ? HANDSHAKE_MS : Math.max(100, Math.min(HANDSHAKE_MS, left));
    const signal = this.#leaving.signal;
    const attempt = { where, token: readToken(token), maxFrame, timeoutMs, signal };
    const socket = await outside.dial(attempt, link);
    link.socket = socket;
    this.#socket = socket;
    this.#connectedOnce = true;
    this.#noticed = false;
    this.protocol = link.protocol;
    if (signal.aborted) {
      socket.close(CloseCode.Done, "");
    } else {
      this.send();
    }
  }

  /** A message has come: tell whom it may concern. */
  #came(): void {
    const waiting = this.protocol?.waiting ?? null;
    if (
      waiting !== null &&
      (waiting.code !== this.#waiting?.code || waiting.message !== this.#waiting.message)
    ) {
      this.#waiting = waiting;
      if (!QUIET.has(waiting.code)) {
        this.#options.notice(sentence(waiting.message || "the sidecar waits", waiting.code));
      }
    }
    if (this.protocol?.welcome) {
      this.#welcomed.fire();
    }
    this.arrived.fire();
    this.send();
  }

  /** Milliseconds until a first connect is given up; null: never. */
  #left(): number | null {
    const { connectTimeoutMs, outside } = this.#options;
    if (connectTimeoutMs === undefined || this.#connectedOnce) {
      return null;
    }
    return this.#dialledSince + connectTimeoutMs - outside.clock.now();
  }

  /** Wait for the next attempt; after a while say once that nobody answers. */
  async #unreachable(error: SidecarUnreachable, backoff: number): Promise<void> {
    const { clock } = this.#options.outside;
    const left = this.#left();
    let pause = backoff;
    if (left !== null) {
      if (left <= 0) {
        throw error;
      }
      pause = Math.min(pause, left);
    } else if (!this.#noticed) {
      const until = this.#dialledSince + NOTICE_AFTER_MS - clock.now();
      if (until > 0) {
        pause = Math.min(pause, until);
      } else {
        this.#noticed = true;
        this.#options.notice(error.message);
      }
    }
    await clock.sleep(pause, this.#leaving.signal);
  }
}

function closedHere(): ConnectionLost {
  return new ConnectionLost("the connection was closed by this side");
}
