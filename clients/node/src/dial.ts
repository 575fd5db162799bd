/**
 * One attempt to get a websocket to the sidecar.
 *
 * No proxy is ever used: with a connection of its own, Node's http asks no agent. No redirect is
 * followed: what redirects is no sidecar, and gets no token elsewhere.
 */

import { connect as connectSocket } from "node:net";
import { type ClientOptions, WebSocket } from "ws";
import type { Address } from "./address.js";
import { HttpRefusal, SUBPROTOCOL } from "./codes.js";
import { type ConnectError, HandshakeRefused, SidecarUnreachable } from "./errors.js";

/** How a socket ended. */
export interface Closed {
  /** The close code that came; null when none came. */
  readonly code: number | null;
  readonly reason: string;
  /** What came was larger than the agreed size. */
  readonly tooLarge: boolean;
}

/** What a socket tells. It says nothing after closed. */
export interface Listener {
  message(data: string | Uint8Array): void;
  closed(how: Closed): void;
}

/** What a connection needs of a websocket. */
export interface Socket {
  send(message: string | Uint8Array): void;
  /** Begin to close. closed() follows, also when the other side does not answer. */
  close(code: number, reason: string): void;
}

export interface Attempt {
  readonly where: Address;
  readonly token: string | null;
  /** The largest message that is taken. */
  readonly maxFrame: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Makes one attempt. Rejects with a ConnectError; retriable says whether another one may help. */
export type Dial = (attempt: Attempt, listener: Listener) => Promise<Socket>;

const CLOSE_TIMEOUT_MS = 2000;

/** What ws takes and its types do not know yet; 0 is no bound. */
interface Newer {
  readonly closeTimeout: number;
  readonly maxFragments: number;
  readonly maxBufferedChunks: number;
  readonly maxPendingAutoPongs: number;
}

export const dial: Dial = (attempt, listener) => {
  const { where, token, maxFrame, timeoutMs, signal } = attempt;
  const { path } = where;
  const options: ClientOptions & Newer = {
    perMessageDeflate: false,
    maxPayload: maxFrame,
    // These count pieces and pings: a large frame may come in many. maxPayload bounds it.
    maxFragments: 0,
    maxBufferedChunks: 0,
    maxPendingAutoPongs: 0,
    followRedirects: false,
    handshakeTimeout: timeoutMs,
    closeTimeout: CLOSE_TIMEOUT_MS,
    headers: token === null ? {} : { Authorization: `Bearer ${token}` },
    // A mask hides bytes from proxies between the two sides; on this machine there is none, and
    // ws copies nothing for a mask of zeros, which is what it is unless somebody fills it.
    generateMask: () => {},
    // A ws+unix: URL cannot name a path with a colon or a blank in it.
    ...(path === null ? {} : { createConnection: () => connectSocket(path) }),
  };
  const url = path === null ? `${where.url}/` : "ws://localhost/";
  const websocket = new WebSocket(url, [SUBPROTOCOL], options);
  return new Promise<Socket>((resolve, reject) => {
    let open = false;
    let tooLarge = false;
    const refuse = (error: ConnectError): void => {
      reject(error);
      websocket.terminate();
    };
    const abort = (): void => refuse(unreachable(where));
    signal.addEventListener("abort", abort, { once: true });
    websocket.on("open", () => {
      signal.removeEventListener("abort", abort);
      open = true;
      resolve({
        send: (message) => websocket.send(message),
        close: (code, reason) => websocket.close(code, reason.slice(0, 100)),
      });
    });
    websocket.on("unexpected-response", (_request, response) => {
      refuse(refusal(where, response.statusCode ?? 0));
    });
    websocket.on("message", (data: Buffer, isBinary: boolean) => {
      listener.message(isBinary ? data : data.toString());
    });
    websocket.on("error", (error: Error) => {
      tooLarge ||= "code" in error && error.code === "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH";
    });
    websocket.on("close", (code: number, reason: Buffer) => {
      signal.removeEventListener("abort", abort);
      if (open) {
        listener.closed({ code: sentCode(code), reason: reason.toString(), tooLarge });
      } else {
        reject(unreachable(where));
      }
    });
    if (signal.aborted) {
      abort();
    }
  });
};

/** The close code that came; null when none did. 1005 and 1006 stand for none, and are never sent. */
export function sentCode(code: number): number | null {
  return code === 1005 || code === 1006 ? null : code;
}

/** The sentence for an address at which nothing answers. */
export function unreachable(where: Address): SidecarUnreachable {
  return new SidecarUnreachable(
    `no sidecar answers at ${where.url}; start it with 'pillion run', or set PILLION_URL to where it listens`,
  );
}

const ADVICE: ReadonlyMap<number, readonly [code: string, advice: string]> = new Map([
  [
    HttpRefusal.Unauthorized,
    [
      "unauthorized",
      "refuses the token; set PILLION_TOKEN_FILE to the file that the sidecar reads its token from",
    ],
  ],
  [
    HttpRefusal.Forbidden,
    [
      "forbidden",
      "refuses the handshake's Host or Origin; set PILLION_URL to the address that it listens on",
    ],
  ],
  [
    HttpRefusal.NotFound,
    ["not_found", "knows no worker's path there; set PILLION_URL to ws://host:port without a path"],
  ],
  [
    HttpRefusal.BadSubprotocol,
    [
      "bad_subprotocol",
      `does not speak ${SUBPROTOCOL}; use a sidecar and a client of the same major version`,
    ],
  ],
]);

/** Any status that no sidecar gives is taken as if nobody had listened. */
function refusal(where: Address, status: number): ConnectError {
  const known = ADVICE.get(status);
  if (known === undefined) {
    return unreachable(where);
  }
  const [code, advice] = known;
  return new HandshakeRefused(`the sidecar at ${where.url} ${advice}`, code);
}
