/** Calls by time that take longer than their interval. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { str } from "../../src/serdes/index.js";
import { Worker } from "../../src/worker/worker.js";
import { type Stage, staged, until } from "./working.js";

test("each gets its turn, and the event loop too", async (t) => {
  const worker = new Worker({ group: "g" });
  const words = worker.topic("words", { key: str(), value: str() });
  worker.process(words, () => {});
  let s: Stage | null = null;
  let calls = 0;
  let turns = 0;
  const turning = setInterval(() => turns++, 0);
  t.after(() => clearInterval(turning));
  const counts = [0, 0, 0];
  for (let i = 0; i < 3; i++) {
    worker.every({ seconds: 1 }, () => {
      counts[i] = (counts[i] ?? 0) + 1;
      calls += 1;
      if (calls < 300) {
        s?.pass(2000);
      }
      const end = performance.now() + 1;
      while (performance.now() < end) {} // as a handler does that computes
    });
  }
  s = await staged(t, worker);
  await s.open("words");
  await s.waiting();
  turns = 0;
  s.pass(1000);
  await until(() => calls >= 300 && s?.runtime.resting === true);
  assert.ok(Math.max(...counts) - Math.min(...counts) <= 1, `they were called ${counts} times`);
  assert.ok(turns > 50, `the event loop had ${turns} turns`);
});
