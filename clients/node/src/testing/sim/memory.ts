/** A worker in the player's own event loop, connected through a pipe: no process and no socket. */

import type { Dial, Listener } from "../../dial.js";
import { exitCode } from "../../run.js";
import { type PipeEnd, pipe } from "../pipe.js";
import { Fault } from "./fault.js";
import type { Session } from "./session.js";
import type { Link, Manner, Sidecar, WorkerUnderTest } from "./sidecar.js";
import { type Job, Knock, knocked, type SignalName, type Stage } from "./stage.js";

/** What a program has in place of its environment. */
export interface Surroundings {
  readonly job: Job;
  /** Of the case; stores that outlive the program go there. */
  readonly directory: string;
  /** The only way to the sidecar. */
  readonly dial: Dial;
  /** Aborts as SIGTERM comes. */
  readonly signal: AbortSignal;
}

/** A worker's main. */
export type Program = (at: Surroundings) => Promise<unknown>;

/** The sidecar's end of a pipe as a link. */
export class PipeLink implements Link {
  readonly #end: PipeEnd;
  #glued: (string | Uint8Array)[] | null = null;

  constructor(end: PipeEnd) {
    this.#end = end;
  }

  /** Send a message, or keep it while messages are glued. */
  post(data: string | Uint8Array): void {
    if (this.#glued === null) {
      this.#end.send(data);
    } else {
      this.#glued.push(data);
    }
  }

  close(code: number, reason: string): void {
    this.#end.close(code, reason);
  }

  cut(): void {
    this.#end.cut();
  }

  /** Keep messages, or let those out that were kept. A pipe has no pieces. */
  change({ fragment, pings, chunk, glue }: Manner): void {
    if (fragment !== 0 || pings || chunk !== 0) {
      throw new RangeError("a pipe has no pieces");
    }
    const kept = this.#glued ?? [];
    this.#glued = glue ? [] : null;
    for (const data of kept) {
      this.#end.send(data);
    }
  }

  ping(size: number): void {
    throw new RangeError(`a pipe has no ping of ${size} bytes`);
  }
}

/** Posts to the sidecar what a worker says on a connection, to the end. */
export function ears(session: Session): Listener {
  const { sidecar } = session;
  return {
    message: (data) => sidecar.post(() => session.receive(data)),
    closed: ({ code }) => sidecar.post(() => session.finish(code ?? 0)),
  };
}

/** A worker that is a promise. Its exit codes are those of run(). */
class PromisedWorker implements WorkerUnderTest {
  code: number | null = null;
  error: unknown = null;

  ended(): string {
    const why = this.error === null ? "" : `: ${String(this.error)}`;
    return `the worker ended with exit code ${this.code}${why}`;
  }
}

/** A place for one worker at a time. */
export class MemoryStage implements Stage {
  readonly work: string;
  knocking: Knock | null = null;
  readonly #sidecar: Sidecar;
  readonly #program: Program;
  readonly #ends: PipeEnd[] = [];
  readonly #over = new AbortController();
  #worker = new PromisedWorker();
  #stop = new AbortController();
  #ended: Promise<void> = Promise.resolve();

  constructor(sidecar: Sidecar, program: Program, work: string) {
    this.#sidecar = sidecar;
    this.#program = program;
    this.work = work;
  }

  /** Start the worker, whose connections are pipes. */
  start(job: Job): void {
    const worker = new PromisedWorker();
    this.#worker = worker;
    this.#sidecar.worker = worker;
    this.#stop = new AbortController();
    this.#ended = this.#run(worker, job, this.#stop.signal);
  }

  /** Let the worker end as TERM does. It cannot be killed: its stores would go on being open. */
  signal(name: SignalName): void {
    if (name === "KILL") {
      throw new RangeError("a worker in memory cannot be killed");
    }
    this.#stop.abort();
  }

  /** Nothing is caught: the test's own output has it. */
  output(): string {
    const { error } = this.#worker;
    return error instanceof Error ? (error.stack ?? error.message) : "";
  }

  /** Have the worker end; one that does not is left alone after a while. */
  async close(): Promise<void> {
    this.#over.abort();
    this.#stop.abort();
    for (const end of this.#ends) {
      end.cut();
    }
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, this.#sidecar.settings.patienceMs);
      void this.#ended.then(() => {
        clearTimeout(late);
        resolve();
      });
    });
  }

  async #run(worker: PromisedWorker, job: Job, signal: AbortSignal): Promise<void> {
    let code = 0;
    try {
      await this.#program({ job, directory: this.work, dial: this.#dial, signal });
    } catch (error) {
      code = signal.aborted && error === signal.reason ? 0 : exitCode(error);
      worker.error = error;
    }
    this.#sidecar.post(() => {
      worker.code = code;
    });
  }

  readonly #dial: Dial = async ({ signal }, listener) => {
    const [ours, theirs] = pipe();
    const knock = new Knock(new PipeLink(ours));
    const away = () => knock.refuse(503, "busy");
    for (const each of [signal, this.#over.signal]) {
      each.addEventListener("abort", away, { once: true });
    }
    if (signal.aborted || this.#over.signal.aborted) {
      away();
    } else {
      this.#sidecar.post(() => knocked(this, knock));
    }
    await knock.answered;
    if (knock.session === null) {
      throw new Fault("a real socket for this case", "a pipe, which has no handshake to refuse");
    }
    this.#ends.push(ours);
    ours.listen(ears(knock.session));
    theirs.listen(listener);
    return theirs;
  };
}
