/** The application and the judge of one transcript: see spec/README.md, Transcripts. */

import assert from "node:assert/strict";
import { verdict } from "../src/closing.js";
import { NO_RECONNECT } from "../src/codes.js";
import type { Outcome } from "../src/commits.js";
import { decode } from "../src/control.js";
import { CommitStale, ConnectionLost, PillionError } from "../src/errors.js";
import type { Event } from "../src/events.js";
import type { Located } from "../src/locate.js";
import { Protocol } from "../src/protocol.js";
import { EventQueue } from "../src/queue.js";
import type { Task } from "../src/tasks.js";
import {
  checkHello,
  checkLocated,
  type Json,
  meaning,
  pairsOf,
  partsOf,
  put,
  rowsOf,
  withoutEmpty,
  written,
} from "./lines.js";

const GONE = new ConnectionLost("gone");

interface Store {
  rows: Map<string, Buffer>;
  checkpoint: string | null;
}

export class Player {
  readonly #lines: readonly Json[];
  #at = 0;
  readonly #queue = new EventQueue();
  #made: Protocol | null = null;
  readonly #tasks = new Map<string, Task>();
  readonly #stores = new Map<string, Store>();
  readonly #outcomes = new Map<number, Outcome>();
  readonly #commits = new Set<number>();
  readonly #answers = new Map<number, (Located | PillionError)[]>();
  readonly #delivered = new Map<string, Record<string, number>>();

  constructor(lines: readonly Json[]) {
    this.#lines = lines;
  }

  play(): void {
    while (this.#at < this.#lines.length) {
      const line = this.#lines[this.#at];
      this.#at += 1;
      if ("connect" in line) {
        this.#connect();
      } else if ("given" in line) {
        const { task, store, rows, checkpoint } = line.given;
        this.#stores.set(`${task} ${store}`, { rows: rowsOf(rows), checkpoint });
      } else if ("store" in line) {
        const { rows, checkpoint } = this.#store(line.task, line.store);
        assert.deepEqual([rows, checkpoint], [rowsOf(line.rows), line.checkpoint]);
      } else if ("delivered" in line) {
        assert.deepEqual(this.#delivered.get(line.delivered) ?? {}, line.next);
      } else if (line.from === "sidecar") {
        this.#fromSidecar(line);
      } else if (line.from === "worker") {
        this.#fromWorker(line);
      }
    }
    assert.equal(this.#sent(), null, "the core says more than the transcript");
  }

  get #core(): Protocol {
    assert.ok(this.#made !== null);
    return this.#made;
  }

  #connect(): void {
    if (this.#made !== null) {
      this.#made.closed(GONE);
      this.#takeEvents();
    }
    this.#commits.clear();
    this.#outcomes.clear();
    const hello = decode(JSON.stringify(this.#lines[this.#at].message));
    assert.ok(hello?.type === "hello");
    this.#made = new Protocol(hello, this.#queue);
  }

  // -- the sidecar's lines

  #fromSidecar(line: Json): void {
    if ("close" in line) {
      const end = verdict(line.close, "", this.#core.lastError, "ws://x");
      assert.equal(end instanceof ConnectionLost, !NO_RECONNECT.has(line.close));
      this.#core.closed(end);
      return;
    }
    const before = this.#queue.size;
    if ("frame" in line) {
      this.#core.receive(Buffer.from(line.hex, "hex"));
      if (line.dropped) {
        assert.equal(this.#queue.size, before);
      }
    } else {
      this.#core.receive(JSON.stringify(line.message));
      this.#answered(line.message);
    }
    if (!line.queued) {
      this.#takeEvents();
    }
  }

  #takeEvents(): void {
    for (let event = this.#core.take(); event !== null; event = this.#core.take()) {
      this.#application(event);
    }
    this.#core.idle();
  }

  #application(event: Event): void {
    switch (event.type) {
      case "assigned":
      case "promoted":
      case "demoted":
        this.#tasks.set(event.task.name, event.task);
        break;
      case "records": {
        assert.ok(!event.batch.stale);
        const next = { [event.topic]: event.batch.nextOffset };
        const before = this.#delivered.get(event.task.name);
        this.#delivered.set(event.task.name, { ...before, ...next });
        break;
      }
      case "restore": {
        assert.ok(!event.batch.stale);
        const store = this.#store(event.task.name, event.table);
        event.batch.applyTo(store.rows);
        store.checkpoint = event.batch.checkpoint ?? store.checkpoint;
        break;
      }
      case "reset":
        this.#stores.delete(`${event.task.name} ${event.table}`);
        break;
    }
  }

  // -- the worker's lines

  #fromWorker(line: Json): void {
    if (line.close === null) {
      this.#core.closed(GONE);
    } else if (!line.race && "frame" in line) {
      this.#frame(line);
    } else if (!line.race) {
      this.#message(line.message);
    }
  }

  #message(wanted: Json): void {
    const core = this.#core;
    const { type } = wanted;
    if (type === "credit" || type === "progress") {
      assert.equal(this.#sent(), null); // lets the core's own credit out
      return;
    }
    if (type === "hello") {
      checkHello(this.#control(), wanted);
      return;
    }
    if (type === "commit" && !this.#commit(wanted.id)) {
      return;
    }
    this.#say(wanted);
    let got = this.#control();
    if (type === "ready") {
      if (got.re < wanted.re) {
        core.ready(this.#task(wanted)); // the one before was of a restored that a reset has overtaken
        got = this.#control();
      }
      this.#takeEvents(); // what has waited for it
    }
    got.message = wanted.message; // prose is not compared
    assert.deepEqual(withoutEmpty(got), withoutEmpty(wanted));
  }

  /** Let the application do what leads to a message. */
  #say(wanted: Json): void {
    const core = this.#core;
    switch (wanted.type) {
      case "opened":
        for (const [table, checkpoint] of Object.entries(wanted.checkpoints)) {
          assert.equal(this.#store(wanted.task, table).checkpoint, checkpoint);
        }
        core.opened(this.#task(wanted), wanted.checkpoints);
        break;
      case "ready":
        core.ready(this.#task(wanted));
        break;
      case "released":
        core.release(this.#task(wanted));
        break;
      case "locate":
        this.#locate(wanted);
        break;
      case "error":
        if (wanted.code === "store_open_failed") {
          core.fail(this.#task(wanted), wanted.code, wanted.message);
        }
        break;
    }
  }

  #locate({ id, table, set, key = "", partition }: Json): void {
    const answers: (Located | PillionError)[] = [];
    this.#answers.set(id, answers);
    const what = partition === undefined ? { key: Buffer.from(key, "base64") } : { partition };
    this.#core.locate({ table, set, ...what }, (answer) => answers.push(answer));
  }

  /** Check what the application gets of an answer. */
  #answered(message: Json): void {
    const answers = this.#answers.get(message.re);
    this.#answers.delete(message.re);
    if (answers === undefined) {
      return;
    }
    assert.equal(answers.length, 1);
    checkLocated(answers[0], message);
  }

  #frame(line: Json): void {
    if (!this.#commit(line.frame.commit)) {
      return;
    }
    if (line.held) {
      assert.equal(this.#sent(), null, "a frame without credit was sent");
      return;
    }
    const data = this.#sent();
    assert.ok(data !== null && typeof data !== "string");
    assert.deepEqual(meaning(data), meaning(Buffer.from(line.hex, "hex")));
  }

  /** Make the commit at the first line of it. False when its epoch is over. */
  #commit(id: number): boolean {
    if (!this.#commits.has(id)) {
      this.#commits.add(id);
      const { frames, message } = partsOf(this.#lines.slice(this.#at - 1), id);
      const task = this.#task(message ?? { task: [...this.#tasks.keys()][0] });
      assert.equal(task.epoch, message?.epoch ?? frames[0].epoch);
      const sourceNext = message?.source_next ?? { [[...task.sources.keys()][0] ?? ""]: 1 };
      const tables = written(frames, [...task.tables.values()], (each) => each.name);
      const changelog = pairsOf(tables);
      const outputs = written(frames, [...task.outputs.values()], (each) => each.topic);
      this.#core.commit(task, sourceNext, changelog, outputs, (outcome) => {
        this.#outcomes.set(id, outcome);
        if (!(outcome instanceof PillionError)) {
          for (const [table, checkpoint] of outcome.checkpoints) {
            const store = this.#store(task.name, table);
            store.checkpoint = checkpoint;
            put(store.rows, changelog.get(table) ?? []);
          }
        }
      });
    }
    return !(this.#outcomes.get(id) instanceof CommitStale);
  }

  // -- helpers

  /** What the core sends next; credit and progress are its own affair. */
  #sent(): string | Uint8Array | null {
    for (;;) {
      const data = this.#core.nextOutgoing();
      if (typeof data !== "string" || !["credit", "progress"].includes(JSON.parse(data).type)) {
        return data;
      }
    }
  }

  #control(): Json {
    const data = this.#sent();
    assert.ok(typeof data === "string", `the core sends ${data}`);
    return JSON.parse(data);
  }

  #task(message: Json): Task {
    const task = this.#tasks.get(message.task);
    assert.ok(task !== undefined);
    return task;
  }

  #store(task: string, table: string): Store {
    const name = `${task} ${table}`;
    const store = this.#stores.get(name) ?? { rows: new Map(), checkpoint: null };
    this.#stores.set(name, store);
    return store;
  }
}
