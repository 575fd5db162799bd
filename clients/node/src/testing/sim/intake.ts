/** The commits of a worker: frames put together, checked, landed and answered. */

import { FrameKind } from "../../codes.js";
import type { Frame } from "../../frames.js";
import type { Draft, MessageOf } from "../../messages.js";
import { recordsOf } from "../writes.js";
import type { Commit, Epoch, Stream } from "./epoch.js";
import { Fault } from "./fault.js";
import type { Stored } from "./kafka.js";
import type { Session } from "./session.js";
import type { Fate, Settings } from "./sidecar.js";

const COMMITTED: Fate = { ending: "committed", code: "", lands: true };
const WHY = "the test wants it so";

/** What comes in on one connection. */
export class Intake {
  readonly #session: Session;
  readonly #settings: Settings;
  /** The commit whose frames come. */
  #sending: Commit | null = null;

  constructor(session: Session) {
    this.#session = session;
    this.#settings = session.sidecar.settings;
  }

  /** Take a frame: a part of a commit. */
  frame(frame: Frame, stream: Stream): void {
    const { epoch } = stream;
    const size = frame.data.length;
    const { maxFrame } = this.#settings.limits;
    if (frame.kind !== FrameKind.Writes) {
      throw new Fault("frames of kind writes", `one of kind ${frame.kind}`);
    }
    if (size > maxFrame) {
      throw new Fault(`frames of at most ${maxFrame} bytes`, `one of ${size}`);
    }
    this.#spend(stream, size);
    const early = epoch.unheard && !epoch.ran;
    if (!epoch.living || epoch.state === "failed" || early) {
      this.refund(stream);
      return;
    }
    if (epoch.state === "released" || !epoch.ran) {
      const want = `no writes of task ${epoch.task} in state ${epoch.state}`;
      throw new Fault(want, `a frame for ${stream.name}`, "they come between ready and released");
    }
    this.#collect(frame, epoch);
    if (stream.kind === "changelog" && storedOf(frame).some(({ key }) => key === null)) {
      throw new Fault("keys in a changelog", `a record without a key for ${stream.name}`);
    }
    this.refund(stream);
  }

  /** Give new credit for what came, unless it is held. */
  refund(stream: Stream): void {
    const session = this.#session;
    const { credit } = this.#settings;
    if (session.sidecar.creditHeld) {
      session.sidecar.owed.push(stream);
      return;
    }
    session.granted = session.received + credit.connection;
    stream.granted = stream.received + credit.stream;
    const streams = new Map([[stream.id, stream.granted]]);
    session.say({ type: "credit", connection: session.granted, streams });
  }

  /** Take the end of a commit, and answer it unless answers are held. */
  commit(message: MessageOf<"commit">): void {
    const session = this.#session;
    const { id, task, epoch: number } = message;
    this.#later(id, `commit ${id}`);
    session.lastRequest = id;
    const epoch = session.find(message);
    const begun = this.#sending?.id === id ? this.#sending : null;
    this.#notMixed(id);
    this.#sending = null;
    if (epoch === null) {
      session.say({ type: "stale", re: id, task, epoch: number });
      return;
    }
    if (epoch.state === "failed") {
      const why = "an earlier commit of the epoch failed";
      session.say({
        type: "aborted",
        re: id,
        task,
        epoch: number,
        code: "commit_failed",
        message: why,
      });
      return;
    }
    if (epoch.unheard && !epoch.ran) {
      const why = "no commit is possible before the records of the task flow";
      session.say({
        type: "error",
        code: "not_allowed",
        message: why,
        re: id,
        task,
        epoch: number,
      });
      return;
    }
    if (epoch.state === "released" || !epoch.ran) {
      const want = `no commit of task ${epoch.task} in state ${epoch.state}`;
      throw new Fault(want, `commit ${id}`, "they come between ready and released");
    }
    this.#whole(begun ?? { id, epoch, frames: [], next: new Map() }, message.sourceNext);
  }

  /** End a commit. */
  answer(commit: Commit, { ending, code, lands }: Fate): void {
    const session = this.#session;
    const { id: re, epoch } = commit;
    session.held = session.held.filter((each) => each !== commit);
    const checkpoints = lands ? this.#land(commit) : new Map<string, string>();
    const of = { re, task: epoch.wireName, epoch: epoch.number };
    const answers: Readonly<Record<Fate["ending"], Draft>> = {
      committed: { type: "committed", ...of, checkpoints },
      aborted: { type: "aborted", ...of, code, message: WHY },
      unknown: { type: "unknown", ...of, code, message: WHY },
      stale: { type: "stale", ...of },
      error: { type: "error", ...of, code, message: WHY },
    };
    if (ending !== "committed" && epoch.living && epoch.state !== "released") {
      epoch.state = "failed";
    }
    session.overWhenAnswered(epoch);
    session.say(answers[ending]);
  }

  /** See that no commit of the epoch is in the middle. */
  noneBegun(epoch: Epoch): void {
    if (this.#sending?.epoch === epoch) {
      throw new Fault("released behind the last commit", "released amid the frames of a commit");
    }
  }

  #spend(stream: Stream, size: number): void {
    const session = this.#session;
    const came = `one of ${size} bytes`;
    const hint = "it waits until the sent bytes are below both limits";
    if (session.received >= session.granted) {
      const want = `no frame: ${session.received} bytes were sent, the limit is ${session.granted}`;
      throw new Fault(want, came, hint);
    }
    if (stream.epoch.living && stream.received >= stream.granted) {
      const want = `no frame for ${stream.name}: ${stream.received} bytes of ${stream.granted}`;
      throw new Fault(want, came, hint);
    }
    session.received += size;
    stream.received += size;
  }

  #collect(frame: Frame, epoch: Epoch): void {
    const { maxCommitBytes } = this.#settings.limits;
    this.#notMixed(frame.base);
    if (this.#sending === null) {
      this.#later(frame.base, `a frame of commit ${frame.base}`);
      this.#sending = { id: frame.base, epoch, frames: [], next: new Map() };
    }
    const commit = this.#sending;
    if (commit.epoch !== epoch) {
      const came = `frames of tasks ${commit.epoch.task} and ${epoch.task}`;
      throw new Fault("one task in a commit", came);
    }
    commit.frames.push(frame);
    const size = commit.frames.reduce((sum, { data }) => sum + data.length, 0);
    if (size > maxCommitBytes) {
      throw new Fault(`commits of at most ${maxCommitBytes} bytes`, `${size} bytes`);
    }
  }

  /** Frames of two commits never mix; the rest of a failed one need not come. */
  #notMixed(id: number): void {
    const sending = this.#sending;
    if (sending === null || sending.id === id) {
      return;
    }
    if (sending.epoch.living && sending.epoch.state !== "failed") {
      throw new Fault(`the rest of commit ${sending.id}`, `a part of commit ${id}`);
    }
    this.#sending = null;
  }

  #later(id: number, what: string): void {
    const last = this.#session.lastRequest;
    if (id <= last) {
      throw new Fault(`an id above ${last}`, what, "a commit is never sent again");
    }
  }

  #whole(commit: Commit, sourceNext: ReadonlyMap<string, number>): void {
    const session = this.#session;
    const { epoch } = commit;
    const { maxOutstandingCommits: most } = this.#settings.limits;
    commit.next = sourceNext;
    if (session.waiting(epoch) >= most) {
      throw new Fault(`at most ${most} commits of ${epoch.task} without an answer`, "one more");
    }
    for (const [topic, position] of sourceNext) {
      move(epoch, topic, position);
    }
    session.held.push(commit);
    if (!session.sidecar.answersHeld) {
      this.answer(commit, session.sidecar.fates.shift() ?? COMMITTED);
    }
  }

  /** Put a commit into Kafka and give the new checkpoints. */
  #land({ epoch, frames, next }: Commit): Map<string, string> {
    const { kafka, streams } = this.#session;
    const { task, partition } = epoch;
    const points = new Map<string, string>();
    for (const frame of frames) {
      const stream = streams.get(frame.stream);
      if (stream === undefined) {
        continue; // a frame was taken only with its stream
      }
      const { topic, name } = stream;
      const records = storedOf(frame);
      if (stream.kind === "output") {
        for (const record of records) {
          kafka.outputs.push({ task, topic, record });
        }
        continue;
      }
      const log = kafka.log(topic, partition);
      log.append(records);
      log.end += 1; // a marker, as behind a transaction
      stream.position = log.end;
      points.set(name, kafka.checkpoint(topic, partition, log.end, !epoch.living));
    }
    for (const [topic, position] of next) {
      kafka.moveTo(topic, partition, Math.max(kafka.position(topic, partition), position));
    }
    return points;
  }
}

/** Note that a commit moves a position. */
function move(epoch: Epoch, topic: string, position: number): void {
  const source = epoch.sources.get(topic);
  const before = epoch.next.get(topic) ?? 0;
  if (source === undefined) {
    throw new Fault(`positions of ${[...epoch.sources.keys()].join(", ")}`, `one of ${topic}`);
  }
  if (position < before) {
    throw new Fault(`a position from ${before} on`, `${position}`, "none goes back");
  }
  const allowed = source.ends.get(position);
  if (allowed === undefined) {
    const want = "a position between delivered records, or a frame's next offset";
    throw new Fault(want, `${position}`, "never past what was delivered");
  }
  if (!allowed) {
    const want = "the frame's next offset, which passes over the gap behind its last record";
    throw new Fault(want, `the last record's offset + 1: ${position}`);
  }
  epoch.next.set(topic, position);
}

/** Take a writes frame apart. */
function storedOf(frame: Frame): Stored[] {
  return recordsOf(frame, (batch, row) => ({
    key: batch.keyAt(row),
    value: batch.valueAt(row),
    headers: batch.headersAt(row),
    timestamp: batch.timestampAt(row),
  }));
}
