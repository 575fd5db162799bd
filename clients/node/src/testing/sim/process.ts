/** Scenarios against a worker as a process, on a real local socket. */

import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import type { IncomingMessage } from "node:http";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { HttpRefusal, SUBPROTOCOL } from "../../codes.js";
import { sentCode } from "../../dial.js";
import type { Websocket } from "../fake-wire.js";
import { type Admission, type Refusal, SocketServer } from "../server.js";
import { Fault } from "./fault.js";
import { Player } from "./player.js";
import { type Scenario, settingsOf } from "./scenario.js";
import { Sidecar, type WorkerUnderTest } from "./sidecar.js";
import { SocketLink } from "./socket.js";
import { type Job, Knock, knocked, type SignalName, type Stage } from "./stage.js";

const PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((each) => [
  each,
  each.toLowerCase(),
]);
const PRINTED = 4000; // characters of the output that are shown

/** Play a case against a command. Rejects with Fault. */
export async function playProcess(scenario: Scenario, command: readonly string[]): Promise<void> {
  const { head } = scenario;
  const directory = mkdtempSync(join(tmpdir(), "pillion-"));
  const sidecar = new Sidecar(settingsOf(head));
  const stage = new ProcessStage(sidecar, command, directory, head.proxy ?? false);
  try {
    await stage.listen(head.listen === "unix");
    await new Player(scenario, sidecar, stage).play();
  } finally {
    await stage.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** A process in a session of its own. */
class ProcessWorker implements WorkerUnderTest {
  code: number | null = null;
  readonly #process: ChildProcess;

  constructor(process: ChildProcess) {
    this.#process = process;
  }

  ended(): string {
    return `the worker's process ended with exit code ${this.code}`;
  }

  /** Reach the process and its children. */
  signal(name: SignalName): void {
    const { pid } = this.#process;
    if (this.code !== null || pid === undefined) {
      return;
    }
    try {
      process.kill(-pid, `SIG${name}`);
    } catch {
      // it has just ended
    }
  }

  /** The exit code, 128 + signal when it was killed. */
  wait(): Promise<number> {
    return new Promise((resolve) => {
      this.#process.once("error", () => resolve(127));
      this.#process.once("exit", (code, signal) => {
        resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
      });
    });
  }
}

/** Asks the player about each handshake, and starts processes. */
class ProcessStage implements Stage {
  readonly work: string;
  knocking: Knock | null = null;
  readonly #sidecar: Sidecar;
  readonly #command: readonly string[];
  readonly #directory: string;
  readonly #proxy: boolean;
  readonly #secret = randomBytes(16).toString("hex");
  readonly #knocks = new Map<IncomingMessage, Knock>();
  readonly #ends: Promise<void>[] = [];
  #server: SocketServer | null = null;
  #worker: ProcessWorker | null = null;

  constructor(sidecar: Sidecar, command: readonly string[], directory: string, proxy: boolean) {
    this.work = join(directory, "work");
    this.#sidecar = sidecar;
    this.#command = command;
    this.#directory = directory;
    this.#proxy = proxy;
    mkdirSync(this.work);
    writeFileSync(join(directory, "token"), `  ${this.#secret}\n\n`);
  }

  async listen(unix: boolean): Promise<void> {
    this.#server = await SocketServer.listen(unix ? { path: join(this.#directory, "sock") } : {}, {
      check: (request) => this.#check(request),
      enter: (websocket, socket, request) => this.#enter(websocket, socket, request),
    });
  }

  /** Start the command with the case's environment. */
  start(job: Job): void {
    const [program = "", ...given] = this.#command;
    const output = openSync(join(this.#directory, "output"), "a");
    const proxies = this.#proxy ? PROXIES.map((each) => [each, "http://127.0.0.1:1"]) : [];
    const child = spawn(program, given, {
      detached: true,
      stdio: ["ignore", output, output],
      env: {
        ...process.env,
        ...Object.fromEntries(proxies),
        NO_PROXY: "",
        no_proxy: "",
        PILLION_URL: this.#url,
        PILLION_TOKEN_FILE: join(this.#directory, "token"),
        PILLION_CONFORMANCE_JOB: job,
        PILLION_CONFORMANCE_DIR: this.work,
      },
    });
    closeSync(output);
    const worker = new ProcessWorker(child);
    this.#worker = worker;
    this.#sidecar.worker = worker;
    this.#ends.push(
      worker.wait().then((code) => {
        this.#sidecar.post(() => {
          worker.code = code;
        });
      }),
    );
  }

  signal(name: SignalName): void {
    this.#worker?.signal(name);
  }

  output(): string {
    try {
      return readFileSync(join(this.#directory, "output"), "utf8").slice(-PRINTED);
    } catch {
      return ""; // nothing was started
    }
  }

  /** Kill the process, and stop listening. */
  async close(): Promise<void> {
    for (const knock of this.#knocks.values()) {
      knock.refuse(HttpRefusal.Busy, "busy");
    }
    this.signal("KILL");
    await Promise.all(this.#ends);
    await this.#server?.close();
  }

  get #url(): string {
    return this.#server?.url ?? "";
  }

  async #check(request: IncomingMessage): Promise<Refusal | Admission> {
    const knock = new Knock(new SocketLink(), this.#wrong(request));
    this.#knocks.set(request, knock);
    this.#sidecar.post(() => knocked(this, knock));
    const status = await knock.answered;
    if (status === 0 || status === 101) {
      // Without a session it is no sidecar, and chooses no subprotocol.
      return { subprotocol: knock.session === null ? null : SUBPROTOCOL };
    }
    const body = JSON.stringify({ code: knock.code, message: "the case wants it so" });
    return {
      status,
      body,
      headers: Math.floor(status / 100) === 3 ? { Location: "/elsewhere" } : {},
    };
  }

  #enter(websocket: Websocket, socket: Duplex, request: IncomingMessage): void {
    const knock = this.#knocks.get(request);
    const session = knock?.session;
    if (session === null || session === undefined || !(knock?.link instanceof SocketLink)) {
      return;
    }
    websocket.on("message", (data, isBinary) => {
      this.#sidecar.post(() => session.receive(isBinary ? data : data.toString()));
    });
    websocket.on("close", (code) => {
      this.#sidecar.post(() => session.finish(sentCode(code) ?? 0));
    });
    knock.link.open(websocket, socket);
  }

  /** Compare a handshake with section 2 of the protocol. */
  #wrong({ url, headers }: IncomingMessage): Fault | null {
    const host = this.#url.startsWith("unix:") ? headers.host : this.#url.slice("ws://".length);
    const wants = [
      ["the path /", url, "/"],
      ["no Origin", headers.origin, undefined],
      ["no extensions", headers["sec-websocket-extensions"], undefined],
      ["the subprotocol", headers["sec-websocket-protocol"], SUBPROTOCOL],
      ["the token of the file", headers.authorization, `Bearer ${this.#secret}`],
      ["the host of PILLION_URL", headers.host, host],
    ];
    const broken = wants.find(([, came, right]) => came !== right);
    return broken === undefined
      ? null
      : new Fault(`${broken[0]}`, `${broken[1]}`, "PROTOCOL.md, section 2 shows the whole request");
  }
}
