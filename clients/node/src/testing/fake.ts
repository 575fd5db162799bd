/**
 * A sidecar in the test's own process: a real websocket server whose every message the test decides.
 *
 * Flow: FakeSidecar listens; accept() gives the next worker that has connected and said hello; its
 * methods send what a sidecar sends and wait for what the worker answers. Nothing happens by itself
 * but credit, which is given back as frames arrive (withholdCredit stops that).
 */

import type { IncomingMessage } from "node:http";
import type { Deadlines, Limits, WelcomeMessage, Window } from "../messages.js";
import { VERSION } from "../protocol.js";
import { Signal } from "../signal.js";
import { FakeWorker } from "./fake-worker.js";
import { found, TIMEOUT_MS } from "./patience.js";
import { type Admission, admission, type Refusal, SocketServer } from "./server.js";

const LIMITS: Limits = {
  maxFrame: 128 << 20,
  maxControl: 1 << 20,
  maxCommitBytes: 16 << 20,
  maxOutstandingCommits: 2,
};
const CREDIT: Window = { connection: 32 << 20, stream: 16 << 20 };
const DEADLINES: Deadlines = { revokeMs: 10_000, workerGraceMs: 10_000, maxProcessingMs: 300_000 };

/** Where to listen: a path, or a port of 127.0.0.1 (0: any that is free). */
export interface Where {
  readonly path?: string;
  readonly port?: number;
}

export interface FakeSidecarOptions extends Where {
  /** What workers must show; without it any token will do. */
  readonly token?: string;
  readonly limits?: Limits;
  /** Bytes that a worker may send ahead. */
  readonly credit?: Window;
  readonly guarantee?: WelcomeMessage["guarantee"];
  /** How long a worker may take for what a test waits for. */
  readonly timeoutMs?: number;
}

/**
 * Listens on a local socket; `url` is where the worker connects.
 *
 *     await using sidecar = await FakeSidecar.listen();
 */
export class FakeSidecar implements AsyncDisposable {
  /** An HTTP status for every handshake from now on. */
  refuseWith: number | null = null;
  /** How many handshakes were refused. */
  refusals = 0;
  readonly #options: FakeSidecarOptions;
  readonly #workers: FakeWorker[] = [];
  readonly #changed = new Signal();
  #server: SocketServer | null = null;
  #sessions = 0;

  private constructor(options: FakeSidecarOptions) {
    this.#options = options;
  }

  static async listen(options: FakeSidecarOptions = {}): Promise<FakeSidecar> {
    const made = new FakeSidecar(options);
    made.#server = await SocketServer.listen(options, {
      check: (request) => made.#check(request),
      enter: (websocket) => {
        made.#workers.push(new FakeWorker(websocket, made.#credit, made.#timeoutMs));
        made.#changed.fire();
      },
    });
    return made;
  }

  /** Where the worker connects. */
  get url(): string {
    return this.#server?.url ?? "";
  }

  /** Wait for the next worker's hello, and welcome it. */
  async accept({ welcome = true } = {}): Promise<FakeWorker> {
    const worker = await this.#found(() => this.#workers.shift(), "worker that connects");
    const hello = await worker.listen();
    if (welcome) {
      this.#sessions += 1;
      worker.send({
        type: "welcome",
        re: hello.id,
        version: VERSION,
        session: `c${this.#sessions}`,
        sidecar: { name: "fake", version: "0" },
        group: hello.group || "test",
        guarantee: this.#options.guarantee ?? "at_least_once",
        limits: this.#options.limits ?? LIMITS,
        credit: this.#credit,
        features: ["locate"],
        deadlines: DEADLINES,
      });
    }
    return worker;
  }

  /** Wait until a handshake was refused. */
  async refused(): Promise<void> {
    await this.#found(() => this.refusals || undefined, "handshake to refuse");
  }

  /** Close all connections, and listen no more. */
  async close(): Promise<void> {
    await this.#server?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #found<T>(find: () => T | undefined, what: string): Promise<T> {
    return found(find, this.#changed, what, this.#timeoutMs);
  }

  get #timeoutMs(): number {
    return this.#options.timeoutMs ?? TIMEOUT_MS;
  }

  get #credit(): Window {
    return this.#options.credit ?? CREDIT;
  }

  #check(request: IncomingMessage): Refusal | Admission {
    const { token } = this.#options;
    const wrong = token !== undefined && request.headers.authorization !== `Bearer ${token}`;
    const status = wrong ? 401 : this.refuseWith;
    const answer = status === null ? admission(request) : { status };
    if ("status" in answer) {
      this.refusals += 1;
      this.#changed.fire();
    }
    return answer;
  }
}
