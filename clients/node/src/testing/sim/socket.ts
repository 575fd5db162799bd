/** A sidecar's end of a real socket, which puts bytes onto the wire in the manner that it is told. */

import type { Duplex } from "node:stream";
import { turn } from "../../signal.js";
import type { Websocket } from "../fake-wire.js";
import type { Link, Manner } from "./sidecar.js";

const PLAIN: Manner = { fragment: 0, pings: false, chunk: 0, glue: false };
const CONTINUATION = 0;
const TEXT = 1;
const BINARY = 2;
const PING = 9;

/**
 * Writes below the ws package, which reads and answers pings and closes.
 *
 * INVARIANT: one write at a time, so one message is never in the middle of another one.
 */
export class SocketLink implements Link {
  readonly #entered: Promise<void>;
  #enter: () => void = () => {};
  #last: Promise<void>;
  #websocket: Websocket | null = null;
  #socket: Duplex | null = null;
  #manner = PLAIN;
  #glued: Buffer[] = [];

  constructor() {
    this.#entered = new Promise((resolve) => {
      this.#enter = resolve;
    });
    this.#last = this.#entered;
  }

  /** Say where to write: from now on what was posted leaves. */
  open(websocket: Websocket, socket: Duplex): void {
    this.#websocket = websocket;
    this.#socket = socket;
    this.#enter();
  }

  /** Send a message in the present manner. */
  post(data: string | Uint8Array): void {
    const raw = bytesOf(this.#manner, data);
    if (this.#manner.glue) {
      this.#glued.push(raw);
    } else {
      this.#write(raw, this.#manner.chunk);
    }
  }

  ping(size: number): void {
    this.#write(frame(PING, Buffer.alloc(size, "p")));
  }

  /** Write in another manner from now on; what was glued goes out. */
  change(manner: Manner): void {
    this.#manner = manner;
    if (this.#glued.length > 0) {
      this.#write(Buffer.concat(this.#glued));
      this.#glued = [];
    }
  }

  /** Close behind what was posted. */
  close(code: number, reason: string): void {
    this.#behind(() => this.#websocket?.close(code, reason));
  }

  cut(): void {
    this.#websocket?.terminate();
  }

  #write(raw: Buffer, chunk = 0): void {
    this.#behind(async () => {
      const size = chunk || raw.length;
      for (let at = 0; at < raw.length && this.#socket?.writable; at += size) {
        this.#socket.write(raw.subarray(at, at + size));
        if (at + size < raw.length) {
          await turn(); // so that pieces arrive as pieces
        }
      }
    });
  }

  #behind(act: () => void | Promise<void>): void {
    this.#last = this.#last.then(act);
  }
}

/** The bytes of one message. */
function bytesOf({ fragment, pings }: Manner, data: string | Uint8Array): Buffer {
  const raw = Buffer.from(data);
  const opcode = typeof data === "string" ? TEXT : BINARY;
  const size = fragment || Math.max(1, raw.length);
  const count = Math.max(1, Math.ceil(raw.length / size));
  const made: Buffer[] = [];
  for (let i = 0; i < count; i++) {
    const last = i === count - 1;
    const part = raw.subarray(i * size, (i + 1) * size);
    made.push(frame(i === 0 ? opcode : CONTINUATION, part, last));
    if (pings && !last) {
      made.push(frame(PING, Buffer.alloc(0)));
    }
  }
  return Buffer.concat(made);
}

/** One frame of RFC 6455; a server masks nothing. */
function frame(opcode: number, data: Buffer, last = true): Buffer {
  const head = Buffer.alloc(data.length < 126 ? 2 : data.length < 65_536 ? 4 : 10);
  head.writeUInt8((last ? 0x80 : 0) | opcode, 0);
  if (head.length === 2) {
    head.writeUInt8(data.length, 1);
  } else if (head.length === 4) {
    head.writeUInt8(126, 1);
    head.writeUInt16BE(data.length, 2);
  } else {
    head.writeUInt8(127, 1);
    head.writeBigUInt64BE(BigInt(data.length), 2);
  }
  return Buffer.concat([head, data]);
}
