/** Plays one scenario against a worker on a stage. */

import { isDeepStrictEqual } from "node:util";
import type { Bytes } from "../../encode.js";
import type { HelloMessage } from "../../messages.js";
import { type Epoch, type Stream, split } from "./epoch.js";
import { Fault, note } from "./fault.js";
import type { Log } from "./kafka.js";
import { living } from "./moves.js";
import { LEVELS, type Scenario } from "./scenario.js";
import type { Session } from "./session.js";
import type { Sidecar, WorkerUnderTest } from "./sidecar.js";
import type { Job, Knock, Stage } from "./stage.js";
import type { AnyFields } from "./values.js";

/** The source of the conformance job. */
export const SOURCE = "words";

/** State of one case. */
export class Player {
  readonly scenario: Scenario;
  readonly sidecar: Sidecar;
  readonly stage: Stage;
  /** By task: how many of its records in the output were compared. */
  readonly #compared = new Map<string, number>();
  #quietSince: number | null = null;

  constructor(scenario: Scenario, sidecar: Sidecar, stage: Stage) {
    this.scenario = scenario;
    this.sidecar = sidecar;
    this.stage = stage;
  }

  /** Do all steps. An error says where the case stood. */
  async play(): Promise<void> {
    const { head, steps } = this.scenario;
    for (const { line, text, play } of steps) {
      this.sidecar.trace(`step: ${text.slice(0, 300)}`);
      try {
        await play(this);
      } catch (error) {
        const trace = this.sidecar.traced.map((each) => `\n  ${each}`).join("");
        const printed = `the worker printed:\n${this.stage.output()}`;
        note(error, `${head.case}, line ${line}: ${text}\nhint: ${head.hint}${trace}\n${printed}`);
        throw error;
      }
    }
  }

  /** The present session. */
  get now(): Session {
    return this.sidecar.now;
  }

  /** The worker, which has been started. */
  get worker(): WorkerUnderTest {
    const { worker } = this.sidecar;
    if (worker === null) {
      throw new RangeError("the worker has not been started");
    }
    return worker;
  }

  /** The source of a task that goes on. */
  source(task: string): Stream {
    return sourceOf(living(this.now, task));
  }

  /** Find "<table>/<partition>", or the source's log. */
  log(name: string): Log {
    const [table, partition] = split(name);
    const topic = table === "counts" ? "conformance-counts-changelog" : table;
    return this.sidecar.kafka.log(topic, partition);
  }

  /** Start the worker anew. */
  start(): void {
    this.#quietSince = null;
    this.stage.start(this.scenario.head.job);
  }

  /** Note that a connection or a handshake ends now. */
  quiet(): void {
    this.#quietSince = performance.now();
  }

  /** Wait for a handshake; start the worker when nobody has. */
  async knock(afterMs: number): Promise<Knock> {
    if (this.sidecar.worker === null) {
      this.start();
    }
    const { stage, worker } = this;
    await this.leave("a connection", () => stage.knocking !== null || worker.code !== null);
    const knock = stage.knocking;
    stage.knocking = null;
    if (knock === null) {
      throw new Fault("a connection", worker.ended());
    }
    if (this.#quietSince !== null) {
      const waited = performance.now() - this.#quietSince;
      if (waited < afterMs) {
        const want = `a pause of at least ${afterMs} ms before the next attempt`;
        throw new Fault(want, `one of ${Math.floor(waited)} ms`);
      }
    }
    return knock;
  }

  /** Wait for something that the end of the connection or the worker may be. */
  async leave(want: string, met: () => boolean): Promise<void> {
    this.sidecar.leaving = true;
    try {
      await this.sidecar.until(want, met);
    } finally {
      this.sidecar.leaving = false;
    }
  }

  /** Wait for one error of the worker with these fields. */
  async hear(want: AnyFields): Promise<void> {
    let heard = false;
    this.sidecar.hears = (came) => {
      const first = !heard && Object.entries(want).every(([k, v]) => isDeepStrictEqual(came[k], v));
      heard ||= first;
      return first;
    };
    try {
      await this.sidecar.until(`the message ${JSON.stringify(want)}`, () => heard);
    } finally {
      this.sidecar.hears = null;
    }
  }

  /** Read a position: a number, or "end" for all that was sent. */
  position(task: string, written: number | "end"): number {
    if (written !== "end") {
      return written;
    }
    const epoch = this.now.tasks.get(task);
    if (epoch === undefined) {
      throw new RangeError(`task ${task} was not assigned`);
    }
    return sourceOf(epoch).position;
  }

  /** Records of the task in the output since the last time that they were asked for. */
  changes(task: string): [key: Bytes, value: Bytes][] {
    const written = this.sidecar.kafka.outputs.filter((each) => each.task === task);
    const since = this.#compared.get(task) ?? 0;
    this.#compared.set(task, written.length);
    return written.slice(since).map(({ record }) => [record.key, record.value]);
  }
}

function sourceOf({ task, sources }: Epoch): Stream {
  const found = sources.get(SOURCE);
  if (found === undefined) {
    throw new RangeError(`task ${task} has no source`);
  }
  return found;
}

/** Compare the declarations with the job of spec/scenarios/README.md. */
export function checkHello(hello: HelloMessage, job: Job): void {
  const whole = job === "tables";
  const tables = [
    { name: "counts", changelog: "", sourceTopic: "" },
    { name: "names", changelog: "", sourceTopic: "names" },
  ];
  const { group, sets, globals, outputs } = hello;
  const wants: Readonly<Record<string, readonly [came: unknown, want: unknown]>> = {
    group: [group, "conformance"],
    sets: [sets, [{ name: SOURCE, sources: [SOURCE], tables: whole ? tables : [] }]],
    globals: [globals, whole ? [{ name: "places", topic: "places" }] : []],
    outputs: [outputs, ["changes"]],
    flat: [[...hello.sources, ...hello.tables], []],
  };
  for (const [field, [came, want]] of Object.entries(wants)) {
    if (!isDeepStrictEqual(came, want)) {
      const hint = `PILLION_CONFORMANCE_JOB was ${job}`;
      throw new Fault(`${field} ${JSON.stringify(want)}`, JSON.stringify(came), hint);
    }
  }
  if (!hello.versions.includes(1)) {
    throw new Fault("versions with 1", JSON.stringify(hello.versions));
  }
  if (whole && (hello.level ?? "tables") !== LEVELS.at(-1)) {
    throw new Fault(`hello with the level ${LEVELS.at(-1)}`, `level ${hello.level}`);
  }
}
