/** One websocket and its protocol core. */

import { verdict } from "./closing.js";
import { CloseCode, Code } from "./codes.js";
import { encode } from "./control.js";
import type { Closed, Listener, Socket } from "./dial.js";
import { PillionError, ProtocolError } from "./errors.js";
import { hello, type Options } from "./options.js";
import { Protocol } from "./protocol.js";
import type { EventQueue } from "./queue.js";

const CLOSE_WITH: ReadonlyMap<string, CloseCode> = new Map([
  [Code.CreditOverrun, CloseCode.CreditOverrun],
  [Code.Version, CloseCode.Version],
]);

/** One websocket and its core, from the handshake to the end. */
export class Link implements Listener {
  readonly protocol: Protocol;
  /** Says what the end of the websocket means. */
  readonly ended: Promise<PillionError>;
  socket: Socket | null = null;
  readonly #options: Options;
  readonly #came: () => void;
  #end: (error: PillionError) => void = () => {};
  /** What made us close. */
  #failed: PillionError | null = null;

  constructor(options: Options, queue: EventQueue, came: () => void) {
    this.#options = options;
    this.#came = came;
    this.protocol = new Protocol(hello(options), queue);
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  message(data: string | Uint8Array): void {
    if (this.#failed !== null) {
      return;
    }
    try {
      this.protocol.receive(data);
      this.#came();
    } catch (error) {
      this.#fail(error);
    }
  }

  closed(how: Closed): void {
    const { where, maxFrame } = this.#options;
    if (this.#failed !== null) {
      this.#end(this.#failed);
    } else if (how.tooLarge) {
      const text = `the sidecar sent more than ${maxFrame} bytes at once`;
      this.#end(new ProtocolError(text, Code.TooLarge));
    } else {
      this.#end(verdict(how.code, how.reason, this.protocol.lastError, where.url));
    }
  }

  #fail(error: unknown): void {
    if (error instanceof ProtocolError) {
      const { code, text: message } = error;
      this.#failed = error;
      this.socket?.send(encode({ type: "error", code, message }));
      this.socket?.close(CLOSE_WITH.get(code) ?? CloseCode.BadMessage, code);
      return;
    }
    this.#failed = new PillionError(`the client failed: ${String(error)}; report it`, "internal", {
      cause: error,
    });
    this.socket?.close(CloseCode.GoingAway, "");
  }
}
