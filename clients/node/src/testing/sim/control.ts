/** The control messages of a worker: each is checked, and moves the epoch that it is about. */

import type { Message, MessageOf } from "../../messages.js";
import type { Stream } from "./epoch.js";
import { Fault } from "./fault.js";
import type { Intake } from "./intake.js";
import { partitionOf } from "./partitioner.js";
import type { Session } from "./session.js";

/** What comes in on one connection beside frames. */
export class Control {
  readonly #session: Session;
  readonly #intake: Intake;

  constructor(session: Session, intake: Intake) {
    this.#session = session;
    this.#intake = intake;
  }

  /** Take one. Throws Fault. */
  take(message: Message, text: string): void {
    const session = this.#session;
    if ((message.type === "hello") !== (session.hello === null)) {
      throw new Fault("hello once, and before everything else", text.slice(0, 200));
    }
    switch (message.type) {
      case "hello":
        session.hello = message;
        session.lastRequest = message.id;
        session.limit = message.credit.connection;
        return;
      case "opened":
        this.#opened(message);
        return;
      case "ready":
        this.#ready(message);
        return;
      case "released":
        this.#released(message);
        return;
      case "commit":
        this.#intake.commit(message);
        return;
      case "credit":
        this.#credit(message);
        return;
      case "progress":
        session.lively = true;
        return;
      case "error":
        this.#error(message, text);
        return;
      case "locate":
        this.#locate(message);
        return;
      default:
        throw new Fault("messages that a worker sends", text.slice(0, 200));
    }
  }

  #opened(message: MessageOf<"opened">): void {
    const epoch = this.#session.find(message);
    if (epoch === null) {
      return;
    }
    const { re, checkpoints } = message;
    const wiped = epoch.resets.get(re);
    if (wiped !== undefined) {
      epoch.resets.delete(re);
      const mark = checkpoints.get(wiped.name);
      if (mark) {
        throw new Fault(`opened with null for ${wiped.name}`, `the checkpoint '${mark}'`);
      }
      return;
    }
    if (re !== epoch.asked || (epoch.state !== "opening" && epoch.state !== "revoking")) {
      const came = `opened with re ${re} for task ${epoch.task} in state ${epoch.state}`;
      throw new Fault("opened once for each assign and reset", came);
    }
    for (const [name, mark] of checkpoints) {
      const stream = epoch.tables.get(name);
      if (stream === undefined) {
        throw new Fault("checkpoints of the task's tables", `one of a table '${name}'`);
      }
      if (mark) {
        this.#position(stream, mark);
      }
    }
    if (epoch.state === "opening") {
      epoch.state = "restoring";
    }
  }

  #position(stream: Stream, mark: string): void {
    const point = this.#session.kafka.points.get(mark);
    const { topic, name, epoch } = stream;
    if (point?.topic !== topic || point.partition !== epoch.partition) {
      const want = `a checkpoint that was given for ${topic}/${epoch.partition}, or null`;
      throw new Fault(want, `'${mark}'`, "keep it unchanged, one for each task and table");
    }
    if (point.void) {
      throw new Fault(
        "a store without the rows of a commit whose epoch was over when its answer came",
        `the checkpoint of that answer for ${name}`,
      );
    }
    stream.position = point.position;
  }

  #ready(message: MessageOf<"ready">): void {
    const epoch = this.#session.find(message);
    if (epoch === null) {
      return;
    }
    const { re } = message;
    if (epoch.overtaken.has(re) || epoch.state === "revoking" || epoch.state === "failed") {
      epoch.unheard = true;
      return;
    }
    if (re !== epoch.ready || epoch.state !== "restored") {
      const came = `ready with re ${re} for task ${epoch.task} in state ${epoch.state}`;
      throw new Fault("ready once for each restored and promoted", came);
    }
    epoch.ready = 0;
    epoch.state = "running";
    epoch.ran = true;
  }

  #released(message: MessageOf<"released">): void {
    const epoch = this.#session.find(message);
    if (epoch === null) {
      return;
    }
    const { re } = message;
    if (re !== epoch.revoke || (epoch.state !== "revoking" && epoch.state !== "failed")) {
      const came = `released with re ${re} for task ${epoch.task} in state ${epoch.state}`;
      throw new Fault("released once for each revoke", came);
    }
    this.#intake.noneBegun(epoch);
    epoch.state = "released";
    this.#session.overWhenAnswered(epoch);
  }

  #credit(message: MessageOf<"credit">): void {
    const session = this.#session;
    const most = session.declared.credit.connection + session.sent;
    if (message.connection > most) {
      const came = `a limit of ${message.connection}`;
      throw new Fault(`at most ${most} for the connection`, came);
    }
    session.limit = Math.max(session.limit, message.connection);
    for (const [number, limit] of message.streams) {
      const stream = session.streams.get(number);
      if (stream === undefined) {
        throw new Fault("streams that were given", `credit for a stream ${number}`);
      }
      if (limit > stream.window + stream.sent) {
        const want = `at most ${stream.window + stream.sent} for stream ${number}`;
        throw new Fault(want, `a limit of ${limit}`);
      }
      stream.limit = Math.max(stream.limit, limit);
    }
    session.pump();
  }

  #locate({ id: re, set, table, key, partition: named }: MessageOf<"locate">): void {
    const session = this.#session;
    const found = session.declared.sets.find(
      ({ name, tables }) =>
        (set === "" || set === name) &&
        (table === "" || tables.some((each) => each.name === table)),
    );
    if (found === undefined) {
      const message = `there is no table '${table}'`;
      session.say({ type: "error", code: "unknown_table", message, re });
      return;
    }
    const { partitions } = session.sidecar.settings;
    const partition = named ?? partitionOf(Buffer.from(key, "base64"), partitions);
    const active = { member: "this-worker", address: session.declared.address };
    const task = `${found.name}/${partition}`;
    session.say({
      type: "located",
      re,
      set: found.name,
      partition,
      task,
      stale: false,
      active,
    });
  }

  #error(message: MessageOf<"error">, text: string): void {
    const { epochs, sidecar } = this.#session;
    if (epochs.get(message.epoch)?.living === false) {
      return;
    }
    if (!sidecar.hears?.(JSON.parse(text) as Record<string, unknown>)) {
      const hint = "the worker refuses what a sidecar may say here";
      throw new Fault("no error", text.slice(0, 300), hint);
    }
  }
}
