/**
 * A websocket server on a local socket that lets a function decide each handshake.
 *
 * Flow: listen() -> check() for each handshake -> enter() with the websocket, or a refusal.
 */

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { type ServerOptions, type WebSocket, WebSocketServer } from "ws";
import { SUBPROTOCOL } from "../codes.js";
import type { Where } from "./fake.js";

/** How a handshake is sent away. */
export interface Refusal {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** How a handshake is let in. */
export interface Admission {
  /** The subprotocol that is chosen; null: none, as a server does that is no sidecar. */
  readonly subprotocol: string | null;
}

/** What decides about handshakes. */
export interface Door {
  check(request: IncomingMessage): Refusal | Admission | Promise<Refusal | Admission>;
  /** socket is what lies below the websocket. */
  enter(websocket: WebSocket, socket: Duplex, request: IncomingMessage): void;
}

/** What ws takes and its types do not know yet; 0 is no bound. */
interface Newer {
  readonly closeTimeout: number;
  readonly maxFragments: number;
  readonly maxBufferedChunks: number;
}

const OPTIONS: ServerOptions & Newer = {
  noServer: true,
  clientTracking: true,
  perMessageDeflate: false,
  maxPayload: 0,
  maxFragments: 0,
  maxBufferedChunks: 0,
  closeTimeout: 1000,
};

export class SocketServer {
  readonly url: string;
  readonly #http: Server;
  readonly #websockets: WebSocketServer;
  readonly #sockets: ReadonlySet<Duplex>;

  private constructor(
    http: Server,
    websockets: WebSocketServer,
    sockets: ReadonlySet<Duplex>,
    url: string,
  ) {
    this.#http = http;
    this.#websockets = websockets;
    this.#sockets = sockets;
    this.url = url;
  }

  static async listen({ path, port = 0 }: Where, door: Door): Promise<SocketServer> {
    const http = createServer((_request, response) => {
      response.writeHead(426).end("this is for websockets\n");
    });
    const sockets = new Set<Duplex>();
    http.on("connection", (socket: Duplex) => {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
    });
    const chosen = new WeakMap<IncomingMessage, string | null>();
    const handleProtocols = (_offered: Set<string>, request: IncomingMessage): string | false =>
      chosen.get(request) ?? false;
    const websockets = new WebSocketServer({ ...OPTIONS, handleProtocols });
    http.on("upgrade", async (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.on("error", () => {}); // its end is told by the websocket
      const answer = await door.check(request);
      if ("status" in answer) {
        refuse(socket, answer);
        return;
      }
      chosen.set(request, answer.subprotocol);
      websockets.handleUpgrade(request, socket, head, (websocket) => {
        websocket.on("error", () => {}); // close follows
        door.enter(websocket, socket, request);
      });
    });
    if (path === undefined) {
      http.listen(port, "127.0.0.1");
    } else {
      http.listen(path);
    }
    await once(http, "listening");
    const url =
      path === undefined
        ? `ws://127.0.0.1:${(http.address() as AddressInfo).port}`
        : `unix:${path}`;
    return new SocketServer(http, websockets, sockets, url);
  }

  /** Close all connections, and listen no more. */
  async close(): Promise<void> {
    const closed = [...this.#websockets.clients].map(async (websocket) => {
      const end = once(websocket, "close");
      websocket.close(1001);
      await end;
    });
    const end = once(this.#http, "close");
    this.#http.close();
    await Promise.all(closed);
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    await end;
  }
}

/** Choose as a sidecar does. */
export function admission(request: IncomingMessage): Refusal | Admission {
  const offered = request.headers["sec-websocket-protocol"] ?? "";
  return offered.split(/\s*,\s*/).includes(SUBPROTOCOL)
    ? { subprotocol: SUBPROTOCOL }
    : { status: 400, body: "no worker's handshake\n" };
}

function refuse(socket: Duplex, { status, headers = {}, body = "refused\n" }: Refusal): void {
  const lines = Object.entries({
    Connection: "close",
    "Content-Length": String(Buffer.byteLength(body)),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${body}`);
}
