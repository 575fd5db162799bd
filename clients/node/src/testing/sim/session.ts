/**
 * One connection of a worker: its epochs and streams, what is sent, and who checks what comes.
 *
 * INVARIANT: nothing here waits. What a worker does wrong throws Fault at once.
 */

import { decode, encode } from "../../control.js";
import { FrameError, MessageError } from "../../errors.js";
import { type Frame, parse } from "../../frames.js";
import type { Draft, HelloMessage } from "../../messages.js";
import { Control } from "./control.js";
import { type Commit, Epoch, type Kind, type Role, Stream, split } from "./epoch.js";
import { Fault } from "./fault.js";
import { Intake } from "./intake.js";
import type { Kafka } from "./kafka.js";
import type { Ending, Link, Sidecar } from "./sidecar.js";

const EXTRA = ',"x_nobody_knows":{"a":[1,null,1.5e3,"\\u0000"],"type":"lost"}}';

/** How a commit is answered. */
export interface AnswerOptions {
  readonly code?: string | undefined;
  /** Kafka has it, whatever the worker is told. */
  readonly lands?: boolean | undefined;
}

/** From hello to the end. */
export class Session {
  readonly sidecar: Sidecar;
  readonly kafka: Kafka;
  readonly link: Link;
  hello: HelloMessage | null = null;
  /** The newest epoch of each task. */
  readonly tasks = new Map<string, Epoch>();
  readonly epochs = new Map<number, Epoch>();
  readonly streams = new Map<number, Stream>();
  /** Commits that are whole and without an answer, in order. */
  held: Commit[] = [];
  /** Bytes of frames that we have sent. */
  sent = 0;
  /** Bytes of frames that we may send. */
  limit = 0;
  received = 0;
  granted: number;
  /** Whether progress came since the last lost. */
  lively = false;
  ended = false;
  /** Of the close; 0: none. */
  code = 0;
  lastRequest = 0;
  #lastId = 0;
  #lastStream = 0;
  readonly #intake: Intake;
  readonly #control: Control;

  constructor(sidecar: Sidecar, link: Link) {
    this.sidecar = sidecar;
    this.kafka = sidecar.kafka;
    this.link = link;
    this.granted = sidecar.settings.credit.connection;
    this.#intake = new Intake(this);
    this.#control = new Control(this, this.#intake);
  }

  /** The worker's hello. */
  get declared(): HelloMessage {
    if (this.hello === null) {
      throw new RangeError("hello has not come yet");
    }
    return this.hello;
  }

  /** The group that the worker declares, or the sidecar's. */
  get group(): string {
    return this.declared.group || this.sidecar.settings.group;
  }

  /** Whether every byte that was sent has been granted anew: the worker has taken it all. */
  get credited(): boolean {
    const whole = this.limit >= this.declared.credit.connection + this.sent;
    return (
      whole &&
      [...this.streams.values()].every(
        ({ epoch, limit, window, sent }) => !epoch.living || limit >= window + sent,
      )
    );
  }

  // -- to the worker

  /** Send a control message. */
  say(message: Draft): void {
    this.text(encode(message));
  }

  /** Send a control message that is encoded. */
  text(text: string): void {
    this.put(this.sidecar.settings.extra ? text.replace(/\}$/, () => EXTRA) : text);
  }

  /** Send a websocket message as it is. */
  put(data: string | Uint8Array): void {
    if (!this.ended) {
      this.link.post(data);
    }
  }

  /** Number a request. */
  nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  /** Answer hello. */
  greet(): void {
    const { session, limits, credit, deadlines } = this.sidecar.settings;
    this.say({
      type: "welcome",
      re: this.declared.id,
      version: 1,
      session,
      sidecar: { name: "simulated", version: "1" },
      group: this.group,
      guarantee: "at_least_once",
      limits,
      credit,
      deadlines,
      features: ["locate"],
    });
  }

  /**
   * Send what waits, as far as the worker's credit allows. A frame without credit stops only what is
   * behind it in its own task.
   */
  pump(): void {
    for (const name of [...this.tasks.keys()].sort()) {
      const epoch = this.tasks.get(name);
      for (let item = epoch?.queue[0]; epoch?.living && item; item = epoch.queue[0]) {
        const { stream, data, sent } = item;
        if (stream === null) {
          this.text(String(data));
        } else if (this.maySend(stream)) {
          this.sent += data.length;
          stream.sent += data.length;
          stream.sizes.push(data.length);
          this.put(data);
        } else {
          break;
        }
        epoch.queue.shift();
        sent?.();
      }
    }
  }

  /** Whether a frame may leave now. */
  maySend(stream: Stream): boolean {
    return stream.sent < stream.limit && this.sent < this.limit;
  }

  /** Send a message behind the frames of its task. */
  inStream(epoch: Epoch, message: Draft, sent: () => void): void {
    epoch.queue.push({ stream: null, data: encode(message), sent });
    this.pump();
  }

  // -- epochs

  /** Make an epoch with its streams; the one before is over. */
  begin(task: string, role: Role): Epoch {
    const [of] = split(task);
    const { sidecar, tasks } = this;
    const before = tasks.get(task);
    if (before !== undefined) {
      before.state = "over";
    }
    sidecar.epochs += 1;
    const odd = `§ ${Buffer.from(task).toString("hex")} "/\\ 9`;
    const wireName = sidecar.settings.oddNames ? odd : task;
    const epoch = new Epoch(task, wireName, sidecar.epochs, role);
    if (role === "global") {
      const { topic } = declaredAs(of, this.declared.globals);
      epoch.tables.set(of, this.#stream(epoch, of, topic, "global"));
    } else {
      this.#openSet(epoch);
    }
    tasks.set(task, epoch);
    this.epochs.set(epoch.number, epoch);
    return epoch;
  }

  /** The topic of a table that names none. */
  changelog(table: string): string {
    return `${this.group}-${table}-changelog`;
  }

  /** The epoch of a message; null when it is over. */
  find(message: {
    readonly type: string;
    readonly task: string;
    readonly epoch: number;
  }): Epoch | null {
    const epoch = this.epochs.get(message.epoch);
    if (epoch?.wireName !== message.task) {
      throw new Fault(
        "a task and an epoch that were assigned on this connection",
        `${message.type} of task ${message.task}, epoch ${message.epoch}`,
        "name task and epoch exactly as assign, promoted or demoted gave them",
      );
    }
    return epoch.living ? epoch : null;
  }

  /** End a released epoch whose commits are all answered. */
  overWhenAnswered(epoch: Epoch): void {
    if (epoch.state === "released" && this.waiting(epoch) === 0) {
      epoch.state = "over";
    }
  }

  /** How many commits of an epoch have no answer. */
  waiting(epoch: Epoch): number {
    return this.held.filter((commit) => commit.epoch === epoch).length;
  }

  /** End a commit. */
  answer(commit: Commit, ending: Ending, { code = "", lands = false }: AnswerOptions = {}): void {
    this.#intake.answer(commit, { ending, code, lands: lands || ending === "committed" });
  }

  /** Give credit for what came on a stream, unless it is held. */
  refund(stream: Stream): void {
    this.#intake.refund(stream);
  }

  #openSet(epoch: Epoch): void {
    const { outputs, sets } = this.declared;
    const { sources, tables } = declaredAs(epoch.of, sets);
    for (const { name, sourceTopic, changelog } of tables) {
      const kind = sourceTopic ? "source" : "changelog";
      const topic = sourceTopic || changelog || this.changelog(name);
      epoch.tables.set(name, this.#stream(epoch, name, topic, kind));
    }
    if (epoch.role === "active") {
      for (const topic of sources) {
        const stream = this.#stream(epoch, topic, topic, "records");
        stream.position = this.kafka.position(topic, epoch.partition);
        stream.ends.set(stream.position, true);
        epoch.next.set(topic, stream.position);
        epoch.sources.set(topic, stream);
      }
      for (const topic of outputs) {
        epoch.outputs.set(topic, this.#stream(epoch, topic, topic, "output"));
      }
    }
  }

  #stream(epoch: Epoch, name: string, topic: string, kind: Kind): Stream {
    this.#lastStream += 3; // numbers need not be dense
    const window = this.declared.credit.stream;
    const granted = this.sidecar.settings.credit.stream;
    const made = new Stream(this.#lastStream, epoch, name, topic, kind, window, granted);
    this.streams.set(made.id, made);
    return made;
  }

  // -- from the worker

  /** Take one message. Throws Fault. */
  receive(data: string | Uint8Array): void {
    if (this.ended) {
      return;
    }
    if (typeof data !== "string") {
      this.#receiveFrame(data);
      return;
    }
    const { limits } = this.sidecar.settings;
    if (Buffer.byteLength(data) > limits.maxControl) {
      const want = `control messages of at most ${limits.maxControl} bytes`;
      throw new Fault(want, `one of ${Buffer.byteLength(data)}`);
    }
    const message = this.#decode(data);
    if (message === undefined) {
      return;
    }
    this.sidecar.trace(`worker: ${data.slice(0, 300)}`);
    if (this.sidecar.forbidden.includes(message.type)) {
      throw new Fault(`no ${message.type} now`, data.slice(0, 200));
    }
    this.#control.take(message, data);
  }

  /** Take the end of the connection. What has no answer has not reached Kafka. */
  finish(code: number): void {
    if (!this.ended) {
      this.ended = true;
      this.code = code;
      this.held = [];
      this.sidecar.trace(`worker: end of the connection, close ${code}`);
    }
  }

  #decode(data: string): ReturnType<typeof decode> {
    try {
      return decode(data);
    } catch (error) {
      if (error instanceof MessageError) {
        throw new Fault("messages as in spec/schema", `${error.text}: ${data.slice(0, 200)}`);
      }
      throw error;
    }
  }

  #receiveFrame(data: Uint8Array): void {
    if (this.hello === null) {
      throw new Fault("hello, and nothing else before welcome", "a data frame");
    }
    const frame = parsed(data);
    this.sidecar.trace(`worker: frame of ${frame.count} records, commit ${frame.base}`);
    this.#intake.frame(frame, this.#writes(frame));
  }

  #writes(frame: Frame): Stream {
    const stream = this.streams.get(frame.stream);
    if (stream === undefined) {
      throw new Fault("frames on streams that were given", `one on stream ${frame.stream}`);
    }
    const { epoch, id, kind, name } = stream;
    if (frame.epoch !== epoch.number) {
      throw new Fault(`epoch ${epoch.number} on stream ${id}`, `${frame.epoch}`);
    }
    if (kind !== "output" && kind !== "changelog") {
      throw new Fault("writes to changelogs and outputs", `writes to ${name}`);
    }
    return stream;
  }
}

function parsed(data: Uint8Array): Frame {
  try {
    return parse(data);
  } catch (error) {
    if (error instanceof FrameError) {
      throw new Fault("frames as in PROTOCOL.md, section 5", error.message);
    }
    throw error;
  }
}

function declaredAs<T extends { readonly name: string }>(name: string, all: readonly T[]): T {
  const found = all.find((each) => each.name === name);
  if (found === undefined) {
    throw new RangeError(`the worker has declared no '${name}'`);
  }
  return found;
}
