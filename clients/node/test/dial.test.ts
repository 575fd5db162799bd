/** One attempt to get a websocket, against real sockets. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type WebSocket, WebSocketServer } from "ws";
import { address } from "../src/address.js";
import { type Closed, dial, type Listener, type Socket } from "../src/dial.js";
import { HandshakeRefused, SidecarUnreachable, UsageError } from "../src/errors.js";

/** What a socket tells, one after the other. */
class Ears implements Listener {
  readonly heard: (string | Uint8Array | Closed)[] = [];
  #wake: () => void = () => {};

  message(data: string | Uint8Array): void {
    this.heard.push(data);
    this.#wake();
  }

  closed(how: Closed): void {
    this.heard.push(how);
    this.#wake();
  }

  async next(): Promise<string | Uint8Array | Closed> {
    for (;;) {
      const found = this.heard.shift();
      if (found !== undefined) {
        return found;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

function attempt(
  url: string,
  listener: Listener,
  token: string | null = null,
  maxFrame = 1 << 20,
): Promise<Socket> {
  const { signal } = new AbortController();
  return dial({ where: address(url), token, maxFrame, timeoutMs: 5000, signal }, listener);
}

/** Serve on a port or a path, and close all when the test is over. */
async function serve<T>(
  server: Server,
  path: string | null,
  use: (url: string) => Promise<T>,
): Promise<T> {
  if (path === null) {
    server.listen(0, "127.0.0.1");
  } else {
    server.listen(path);
  }
  await once(server, "listening");
  try {
    const at = server.address();
    return await use(path === null ? `ws://127.0.0.1:${(at as AddressInfo).port}` : `unix:${path}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

async function sidecar(
  use: (url: string, accepted: Promise<[WebSocket, IncomingMessage]>) => Promise<void>,
  path: string | null = null,
): Promise<void> {
  const server = createServer();
  const websockets = new WebSocketServer({ server, perMessageDeflate: true });
  const accepted = once(websockets, "connection") as Promise<[WebSocket, IncomingMessage]>;
  await serve(server, path, (url) => use(url, accepted));
  for (const each of websockets.clients) {
    each.terminate();
  }
}

test("the handshake says what it must, and no more; messages go both ways", async () => {
  for (const name of ["HTTP_PROXY", "http_proxy", "ALL_PROXY"]) {
    process.env[name] = "http://127.0.0.1:1"; // never asked
  }
  await sidecar(async (url, accepted) => {
    const ears = new Ears();
    const socket = await attempt(url, ears, "secret");
    const [worker, request] = await accepted;
    assert.equal(request.url, "/");
    const { headers } = request;
    assert.equal(headers.host, url.slice("ws://".length));
    assert.equal(headers.authorization, "Bearer secret");
    assert.equal(headers["sec-websocket-protocol"], "pillion.v1");
    assert.equal(headers.origin, undefined);
    assert.equal(headers["sec-websocket-extensions"], undefined);
    worker.send("text ü");
    worker.send(Buffer.of(1, 2));
    assert.equal(await ears.next(), "text ü");
    assert.deepEqual(await ears.next(), Buffer.of(1, 2));
    const got: string[] = [];
    const both = new Promise<void>((resolve) => {
      worker.on("message", (data, isBinary) => {
        got.push(`${isBinary} ${data}`);
        if (got.length === 2) {
          resolve();
        }
      });
    });
    socket.send("hi");
    socket.send(Buffer.from("there"));
    await both;
    assert.deepEqual(got, ["false hi", "true there"]);
    const closed = once(worker, "close");
    socket.close(1000, "");
    assert.equal((await closed)[0], 1000);
    assert.deepEqual(await ears.next(), { code: 1000, reason: "", tooLarge: false });
  });
});

test("closes are told with their code, and a broken socket without one", async () => {
  for (const code of [4409, null]) {
    await sidecar(async (url, accepted) => {
      const ears = new Ears();
      await attempt(url, ears);
      const [worker] = await accepted;
      if (code === null) {
        worker.terminate();
      } else {
        worker.close(code, "why");
      }
      const reason = code === null ? "" : "why";
      assert.deepEqual(await ears.next(), { code, reason, tooLarge: false });
    });
  }
});

test("a message over the agreed size, and one in many pieces", async () => {
  await sidecar(async (url, accepted) => {
    const ears = new Ears();
    await attempt(url, ears, null, 40_000);
    const [worker] = await accepted;
    for (let i = 0; i < 20_000; i++) {
      worker.send(Buffer.of(i & 1, 2), { fin: i === 19_999 }); // more than ws takes by default
      if (i % 100 === 0) {
        worker.ping();
      }
    }
    const whole = await ears.next();
    assert.ok(whole instanceof Uint8Array && whole.length === 40_000);
    worker.send(Buffer.alloc(40_001));
    assert.deepEqual(await ears.next(), { code: null, reason: "", tooLarge: true });
  });
});

test("a Unix socket, whatever its path is called", async () => {
  const directory = mkdtempSync(join(tmpdir(), "pillion "));
  try {
    const use = async (url: string, accepted: Promise<[WebSocket, IncomingMessage]>) => {
      const ears = new Ears();
      await attempt(url, ears);
      const [worker] = await accepted;
      worker.send("there");
      assert.equal(await ears.next(), "there");
    };
    await sidecar(use, join(directory, "a:b c.sock"));
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("refusals: for good, or come again", async () => {
  const cases = [
    [401, "unauthorized", /refuses the token; set PILLION_TOKEN_FILE to/],
    [403, "forbidden", /refuses the handshake's Host or Origin/],
    [404, "not_found", /knows no worker's path there/],
    [400, "bad_subprotocol", /does not speak pillion.v1/],
    [503, "sidecar_unreachable", /no sidecar answers/],
    [302, "sidecar_unreachable", /no sidecar answers/],
    [200, "sidecar_unreachable", /no sidecar answers/],
  ] as const;
  for (const [status, code, text] of cases) {
    let requests = 0;
    const refuse = createServer((_, response) => {
      requests += 1;
      response.writeHead(status, { location: "/other" }).end("{}");
    });
    await serve(refuse, null, async (url) => {
      await assert.rejects(attempt(url, new Ears()), (error) => {
        const final = error instanceof HandshakeRefused;
        assert.ok(final || error instanceof SidecarUnreachable);
        assert.ok(error.code === code && text.test(error.message) && error.retriable === !final);
        return true;
      });
    });
    assert.equal(requests, 1, "no redirect is followed");
  }
});

test("what chooses no subprotocol is no sidecar, and nobody may listen at all", async () => {
  const server = createServer();
  new WebSocketServer({ server, handleProtocols: () => false });
  let at = "";
  await serve(server, null, async (url) => {
    at = url;
    await assert.rejects(attempt(url, new Ears()), SidecarUnreachable);
  });
  await assert.rejects(attempt(at, new Ears()), SidecarUnreachable);
  await assert.rejects(attempt("unix:/nowhere/socket", new Ears()), SidecarUnreachable);
});

test("an attempt can be given up", async () => {
  const silent = createServer();
  silent.on("upgrade", () => {});
  await serve(silent, null, async (url) => {
    const giving = new AbortController();
    const where = address(url);
    const connecting = dial(
      { where, token: null, maxFrame: 1, timeoutMs: 5000, signal: giving.signal },
      new Ears(),
    );
    await once(silent, "upgrade");
    giving.abort();
    await assert.rejects(connecting, SidecarUnreachable);
  });
});

test("addresses", () => {
  const good = [
    ["ws://127.0.0.1:7420", "ws://127.0.0.1:7420", null],
    ["ws://localhost:7420/", "ws://localhost:7420", null],
    ["ws://[::1]:1", "ws://[::1]:1", null],
    ["unix:/run/p", "unix:/run/p", "/run/p"],
    ["unix:///run/p", "unix:///run/p", "/run/p"],
  ] as const;
  for (const [text, url, path] of good) {
    assert.deepEqual(address(text), { url, path });
  }
  for (const bad of [
    "http://x",
    "wss://h:1",
    "ws://",
    "unix:relative",
    "ws://h:1/path",
    "ws://u:p@h",
    "ws://[",
    "x",
  ]) {
    assert.throws(
      () => address(bad),
      (error) => error instanceof UsageError && error.code === "bad_url",
    );
  }
  process.env.PILLION_URL = "unix:/from/environment";
  assert.equal(address(undefined).path, "/from/environment");
  delete process.env.PILLION_URL;
  assert.equal(address(undefined).url, "ws://127.0.0.1:7420");
});
