/** A worker by hand, on a simulated sidecar that it has no network to. */

import assert from "node:assert/strict";
import { FrameKind } from "../../src/codes.js";
import { decode, encode as write } from "../../src/control.js";
import { type Bytes, encode } from "../../src/encode.js";
import type { Draft, Message, MessageOf } from "../../src/messages.js";
import type { Epoch, Stream } from "../../src/testing/sim/epoch.js";
import * as moves from "../../src/testing/sim/moves.js";
import { Session } from "../../src/testing/sim/session.js";
import { type Link, Sidecar } from "../../src/testing/sim/sidecar.js";

const LIMITS = { maxFrame: 300, maxControl: 400, maxCommitBytes: 500, maxOutstandingCommits: 2 };
const KEY = Buffer.from("k");

/** A link to nobody. */
class Sink implements Link {
  readonly posted: (string | Uint8Array)[] = [];

  post(data: string | Uint8Array): void {
    this.posted.push(data);
  }

  close(): void {}
  cut(): void {}
  change(): void {}
  ping(): void {}
}

/** It has task words/0 of epoch 1, with the tables counts and names, and the output changes. */
export class ByHand {
  readonly sink = new Sink();
  readonly sidecar = new Sidecar({ limits: LIMITS });
  readonly session = new Session(this.sidecar, this.sink);
  readonly epoch: Epoch;

  constructor() {
    const tables = [{ name: "counts" }, { name: "names", sourceTopic: "names" }];
    this.say({
      type: "hello",
      id: 1,
      versions: [1],
      client: { name: "by hand", version: "1" },
      maxFrame: 1 << 20,
      credit: { connection: 1000, stream: 1000 },
      sets: [{ name: "words", sources: ["words"], tables }],
      outputs: ["changes"],
    });
    this.session.greet();
    this.epoch = moves.assign(this.session, "words/0");
  }

  /** Bring the task to where it has three delivered records, the last one before a gap. */
  run(): this {
    this.opened();
    moves.restored(this.session, this.epoch);
    this.say({ type: "ready", re: 2, task: "words/0", epoch: 1 });
    const records = [0, 1, 2].map((offset) => ({ key: KEY, value: KEY, offset }));
    moves.feed(this.session, this.source, records, 9);
    return this;
  }

  say(message: Draft): void {
    this.session.receive(write(message));
  }

  opened(checkpoints = new Map<string, string | null>(), re = 1, epoch = 1): void {
    this.say({ type: "opened", re, task: "words/0", epoch, checkpoints });
  }

  /** Write a frame of one record. */
  write(stream: number, { commit = 2, key = KEY as Bytes, size = 1, epoch = 1 } = {}): void {
    this.session.receive(
      encode({
        kind: FrameKind.Writes,
        stream,
        epoch,
        base: commit,
        next: 0,
        keys: [key],
        values: [Buffer.alloc(size, "v")],
      }),
    );
  }

  commit(position = 9, id = 2, topic = "words"): void {
    const sourceNext = new Map([[topic, position]]);
    this.say({ type: "commit", id, task: "words/0", epoch: 1, sourceNext });
  }

  /** The newest messages from the sidecar, oldest first. */
  answers(count: number): Message[] {
    return this.sink.posted.slice(-count).map((each) => {
      const message = decode(each);
      assert.ok(message !== undefined);
      return message;
    });
  }

  /** The newest message, which is of this type. */
  answer<T extends Message["type"]>(type: T): MessageOf<T> {
    const [message] = this.answers(1);
    assert.equal(message?.type, type);
    return message as MessageOf<T>;
  }

  get source(): Stream {
    return there(this.epoch.sources.get("words"));
  }

  get table(): Stream {
    return there(this.epoch.tables.get("counts"));
  }

  /** Numbers of streams. */
  get counts(): number {
    return this.table.id;
  }

  get names(): number {
    return there(this.epoch.tables.get("names")).id;
  }

  get changes(): number {
    return there(this.epoch.outputs.get("changes")).id;
  }
}

export function there<T>(found: T | undefined): T {
  assert.ok(found !== undefined);
  return found;
}
