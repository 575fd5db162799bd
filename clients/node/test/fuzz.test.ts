/** Whatever comes, and whatever user code does, the core keeps its promises. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameKind } from "../src/codes.js";
import { ConnectionLost, PillionError } from "../src/errors.js";
import type { Event } from "../src/events.js";
import type { Draft, TableStream } from "../src/messages.js";
import type { Task } from "../src/tasks.js";
import { ASSIGN, Hand, STANDBY, WELCOME } from "./hand.js";
import { Random } from "./random.js";

function table(kind: TableStream["kind"], stream: number): TableStream {
  return { name: "t", topic: "l", kind, stream };
}

function about<T>(rest: T, task = "w/0"): T & { task: string; epoch: number } {
  return { task, epoch: 1, ...rest };
}

const MESSAGES: readonly Draft[] = [
  ASSIGN,
  STANDBY,
  about({ type: "restored", id: 3 }),
  about({ type: "restored", id: 3 }, "w/1"),
  about({ type: "revoke", id: 4, deadlineMs: 1, code: "drain" }),
  about({ type: "lost", code: "fenced" }),
  about({ type: "lost", code: "hung" }, "w/1"),
  about({ type: "reset", id: 5, table: "t", stream: 2, nextOffset: 0, code: "x" }),
  {
    type: "promoted",
    id: 6,
    task: "w/1",
    epoch: 2,
    sources: [{ topic: "w", stream: 30, position: 0 }],
    tables: [table("source", 31)],
  },
  { type: "demoted", task: "w/0", epoch: 2, tables: [table("changelog", 32)] },
  about({ type: "committed", re: 2, checkpoints: new Map() }),
  about({ type: "stale", re: 2 }),
  about({ type: "aborted", re: 3, code: "null_key", message: "x" }),
  { type: "error", code: "internal", message: "x", re: 2 },
  { type: "credit", connection: 2 ** 40, streams: new Map([[2, 2 ** 40]]) },
  { type: "waiting", code: "ok" },
  about({ type: "restoring", table: "t", records: 1, bytes: 1, rate: 1, remaining: 1, etaMs: -1 }),
  WELCOME,
];

class Conversation {
  readonly #random: Random;
  readonly #core = new Hand(1 << 20);
  readonly #lost = new Set<Task>();
  readonly #tasks: Task[] = [];
  #pending = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  step(): void {
    const random = this.#random;
    const what = random.next();
    if (what < 0.4) {
      this.#core.send(random.pick(MESSAGES));
    } else if (what < 0.6) {
      const kind = random.pick([FrameKind.Records, FrameKind.Restore]);
      this.#core.frame(kind, 1 + random.below(9), random.below(8));
    } else {
      this.#act();
    }
  }

  #act(): void {
    const { protocol } = this.#core;
    const task = this.#tasks[this.#random.below(this.#tasks.length)];
    const what = this.#random.below(7);
    if (what <= 1 || task === undefined) {
      this.#take();
    } else if (what === 2) {
      protocol.opened(task, new Map([...task.tables.keys()].map((name) => [name, null])));
    } else if (what === 3) {
      protocol.ready(task);
    } else if (what === 4) {
      protocol.release(task);
    } else if (what === 5) {
      this.#commit(task);
    } else {
      this.#core.sent();
    }
  }

  #commit(task: Task): void {
    const rows = { t: [[Buffer.from("a"), Buffer.from("1")]] } as const;
    let ended = false;
    this.#pending += 1;
    try {
      this.#core.protocol.commit(task, { w: 6 }, rows, {}, () => {
        assert.ok(!ended, "INVARIANT: a commit ends once");
        ended = true;
        this.#pending -= 1;
      });
    } catch (error) {
      assert.ok(error instanceof PillionError);
      this.#pending -= 1;
    }
  }

  #take(): void {
    const event: Event | null = this.#core.protocol.take();
    if (event === null || !("task" in event)) {
      return;
    }
    assert.ok(!this.#lost.has(event.task), "INVARIANT: nothing follows lost");
    if (event.type === "lost") {
      this.#lost.add(event.task);
    }
    if (event.type === "records") {
      assert.ok(!event.batch.stale, "INVARIANT: no batch of an epoch that is over leaves");
    }
    this.#tasks.push(event.task);
  }

  end(): void {
    this.#core.protocol.closed(new ConnectionLost("gone"));
    assert.equal(this.#pending, 0, "INVARIANT: every commit has an outcome");
    while (this.#core.queue.size > 0) {
      this.#take();
    }
    assert.deepEqual(this.#core.sent(), []);
  }
}

test("any conversation ends in documented errors", () => {
  for (let seed = 0; seed < 1000; seed++) {
    const random = new Random(seed);
    const conversation = new Conversation(random);
    try {
      for (let steps = random.below(80); steps > 0; steps--) {
        conversation.step();
      }
    } catch (error) {
      if (!(error instanceof PillionError)) {
        throw new Error(`seed ${seed}`, { cause: error });
      }
    }
    conversation.end();
  }
});
