/**
 * The drill's worker in Node: counts and sums per key, joined with a source table; one output per
 * input. The same as internal/drill/testdata/worker.py, with which it shares a group.
 *
 * DRILL_IN, DRILL_REF, DRILL_OUT: topics. DRILL_STATE: a directory with the stores, and with files
 * by which the drill asks for something:
 *
 *     slow             each record takes as many seconds as the file says
 *     slow-restore     each batch of a restore does
 *     die-before-flush the process kills itself when a commit is whole in Kafka, before its store has it
 *
 * A full disk is not played here: see internal/drill/testdata/full.c. What happens is told on
 * stdout, a JSON object a line.
 */

import { existsSync, readFileSync, unlinkSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Event } from "../src/client.js";
import { json, str, t, Worker } from "../src/index.js";
import { SqliteStores } from "../src/stores/index.js";
import { Tables } from "../src/tables.js";

const STATE = required("DRILL_STATE");

const input = t.object({ id: t.int, amount: t.int });
const total = t.object({ count: t.int, sum: t.int });
const ref = t.object({ factor: t.int, rev: t.int });
const output = t.object({
  id: t.int,
  amount: t.int,
  count: t.int,
  sum: t.int,
  factor: t.int,
  rev: t.int,
});

const worker = new Worker({
  stateDir: join(STATE, "tables"),
  commitIntervalMs: 50,
  window: 32 << 10,
});
const source = worker.topic(required("DRILL_IN"), { key: str(), value: json(input) });
const refs = worker.sourceTable("ref", {
  key: str(),
  value: json(ref),
  topic: required("DRILL_REF"),
});
const totals = worker.table("totals", {
  key: str(),
  value: json(total),
  default: () => ({ count: 0, sum: 0 }),
});
const out = worker.output(required("DRILL_OUT"), { key: str(), value: json(output) });

worker.each(source, { tables: [totals, refs] }, async ({ key, value }, ctx) => {
  const slow = asked("slow");
  if (slow !== null) {
    await sleep(1000 * Number(slow));
  }
  if (key === null || value === null) {
    throw new Error("the drill writes no such record");
  }
  const { factor, rev } = ctx.table(refs).get(key) ?? { factor: 0, rev: 0 };
  const sums = ctx.table(totals);
  const row = sums.get(key);
  row.count += 1; // in place: what is changed so must be found, too
  row.sum += value.amount;
  sums.set(key, row);
  ctx.send(out, { key, value: { ...value, ...row, factor, rev } });
});

worker.watch((event) => {
  switch (event.type) {
    case "assigned":
      say("assigned", { task: event.task.name, role: event.task.role });
      break;
    case "restore": {
      const slow = asked("slow-restore");
      if (slow !== null) {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000 * Number(slow));
      }
      break;
    }
    case "restored":
    case "promoted":
    case "demoted":
      say(event.type, { task: event.task.name });
      break;
    default:
      tellEnd(event);
  }
});

function tellEnd(event: Event): void {
  switch (event.type) {
    case "revoking":
      say("revoking", { task: event.task.name, text: event.code });
      break;
    case "lost":
      say("lost", { task: event.task.name, text: `${event.code}: ${event.message}` });
      break;
    case "reset":
      say("reset", { task: event.task.name, text: `${event.table}: ${event.code}` });
      break;
    default:
  }
}

/** Say when a commit begins, and when its answer has come. */
function tellCommits(): void {
  const began = Tables.prototype.send;
  let number = 0;
  Tables.prototype.send = function (this: Tables, ...given: Parameters<Tables["send"]>) {
    number += 1;
    const id = number;
    const task = given[0].name;
    const answer = (ok: boolean): void => say("answer", { task, id, ok });
    say("commit", { task, id });
    try {
      const sent = began.apply(this, given);
      sent.then(
        () => answer(true),
        () => answer(false),
      );
      return sent;
    } catch (error) {
      answer(false);
      throw error;
    }
  };
}

/** Let the drill kill this process between `committed` and the store's flush. */
function dieBeforeFlush(): void {
  const opens = SqliteStores.prototype.open;
  SqliteStores.prototype.open = function (this: SqliteStores, task, table) {
    const store = opens.call(this, task, table);
    const takes = store.applyCommit.bind(store);
    store.applyCommit = (rows, checkpoint) => {
      const path = join(STATE, "die-before-flush");
      if (existsSync(path)) {
        unlinkSync(path);
        say("dies", { text: "between committed and the store's flush" });
        process.kill(process.pid, "SIGKILL");
      }
      takes(rows, checkpoint);
    };
    return store;
  };
}

function say(event: string, fields: Record<string, unknown> = {}): void {
  writeSync(1, `${JSON.stringify({ event, at: Date.now() / 1000, ...fields })}\n`);
}

function asked(name: string): string | null {
  try {
    return readFileSync(join(STATE, name), "utf8");
  } catch {
    return null;
  }
}

function required(name: string): string {
  const value = process.env[name];
  if (value === undefined) {
    throw new Error(`${name} is not set; internal/drill starts this program`);
  }
  return value;
}

say("up");
tellCommits();
dieBeforeFlush();
await worker.run();
