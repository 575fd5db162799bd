/** What a worker says to a logger, and to whoever subscribes to its channels. */

import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { test } from "node:test";
import { pino } from "pino";
import type { Logger } from "../../src/worker/logging.js";
import { skip } from "../../src/worker/policy.js";
import { App, pair, pairs, staged } from "./working.js";

test("pino and console are loggers", async (t) => {
  const lines: { level: number; msg: string; err?: { type: string } }[] = [];
  const logger: Logger = pino(
    { level: "debug" },
    { write: (line) => lines.push(JSON.parse(line)) },
  );
  const other: Logger = console;
  assert.ok(other);
  const it = new App({ logger, onError: skip() });
  const s = await staged(t, it.worker);
  const task = await s.open("words");
  s.records(task, "words", ...pairs("fail", "fail", "a"));
  await s.commit();
  assert.deepEqual(
    lines.map(({ level, msg, err }) => [level, msg, err?.type]),
    [
      [30, "task words/0 is assigned (active)", undefined],
      [30, "task words/0 is whole, and begins at words 0", undefined],
      [40, "words/0 offset 0 is skipped: onWord has thrown RangeError: no such word", "RangeError"],
      [40, "words/0 offset 1 is skipped: onWord has thrown RangeError: no such word", undefined],
    ],
  );
});

test("channels tell of tasks, batches, commits and restoring", async (t) => {
  const told: [string, Record<string, unknown>][] = [];
  const hear = (message: unknown, name: string | symbol): void => {
    const { ms: _, ...facts } = message as Record<string, unknown>;
    told.push([String(name), facts]);
  };
  const names = ["task", "batch", "commit", "restore"].map((name) => `pillion:${name}`);
  for (const name of names) {
    subscribe(name, hear);
    t.after(() => unsubscribe(name, hear));
  }
  const it = new App();
  const s = await staged(t, it.worker);
  const task = s.fake.assign("words");
  await s.fake.expect("opened");
  const { name, epoch } = task;
  s.fake.restore(task, "lists", [pair("k", "[]")]);
  const sums = { records: 1, bytes: 3, rate: 1, remaining: 9, etaMs: -1 };
  s.fake.send({ type: "restoring", task: name, epoch, table: "lists", ...sums });
  await s.fake.restored(task);
  s.records(task, "words", ...pairs("a", "b"));
  await s.commit();
  s.fake.revoke(task);
  await s.fake.expect("released");
  const news = { task: "words/0", epoch: 1, role: "active" };
  const table = { task: "words/0", table: "lists" };
  const batch = { task: "words/0", topic: "words", records: 2 };
  assert.deepEqual(told, [
    ["pillion:task", { ...news, what: "assigned" }],
    ["pillion:restore", { ...table, records: 1, remaining: 9 }],
    ["pillion:task", { ...news, what: "restored" }],
    ["pillion:batch", batch],
    ["pillion:commit", { task: "words/0", error: null }],
    ["pillion:task", { ...news, what: "revoked" }],
  ]);
});
