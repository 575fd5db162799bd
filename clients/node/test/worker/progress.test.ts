/** How far the restoring is: a bar on a terminal, lines of the log elsewhere. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { RestoringEvent } from "../../src/events.js";
import type { Task } from "../../src/tasks.js";
import { silent } from "../../src/worker/logging.js";
import { duration, Progress, summary } from "../../src/worker/progress.js";

class Terminal {
  readonly isTTY = true;
  columns = 89;
  text = "";

  write(text: string): void {
    this.text += text;
  }
}

function task(partition = 0, role: Task["role"] = "active"): Task {
  const none = new Map<never, never>();
  const name = `s/${partition}`;
  return { name, set: "s", partition, role, epoch: 1, tables: none, sources: none, outputs: none };
}

function restoring(
  of: Task,
  records: number,
  remaining: number,
  rate = 100,
  waitsFor = "",
): RestoringEvent {
  const bytes = records * 10;
  return {
    type: "restoring",
    task: of,
    table: "t",
    records,
    bytes,
    rate,
    remaining,
    etaMs: -1,
    waitsFor,
  };
}

/** A progress whose lines of the log are kept. */
function logging(stream: Terminal | null = null) {
  const lines: string[] = [];
  const time = { now: 0 };
  const logger = { ...silent, info: (_: object, sentence: string) => void lines.push(sentence) };
  return { lines, time, progress: new Progress(logger, stream, () => time.now) };
}

test("what is restored at once is added up", () => {
  assert.deepEqual(summary([restoring(task(0), 300, 100), restoring(task(1), 0, 800)]), {
    done: 0.25,
    text: "2 tables, 5 s to go, 300 records, 200 records/s",
  });
  assert.deepEqual(summary([restoring(task(), 0, 0, 0)]), {
    done: 1,
    text: "1 table, time to go not known, 0 records, 0 records/s",
  });
  assert.match(summary([restoring(task(), 1_234_567, -5)]).text, /1,234,567 records/);
});

test("what a replay waits for is said instead of the time to go", () => {
  const held = restoring(task(1), 90, 10, 0, "a transaction at offset 90");
  assert.deepEqual(summary([restoring(task(0), 0, 0, 0), held]), {
    done: 0.9,
    text: "2 tables, waits for a transaction at offset 90, 90 records, 0 records/s",
  });
});

test("durations", () => {
  assert.deepEqual([0.4, 59, 61, 3599, 3600, 90061].map(duration), [
    "0 s",
    "59 s",
    "1 min 1 s",
    "59 min 59 s",
    "1 h 0 min",
    "25 h 1 min",
  ]);
});

test("a line every ten seconds", () => {
  const { lines, time, progress } = logging();
  for (let second = 0; second < 25; second++) {
    time.now = second * 1000;
    progress.watch(restoring(task(), 4 * second, 100 - 4 * second, 4));
  }
  progress.watch({ type: "restored", task: task() });
  assert.deepEqual(lines, [
    "restoring 40 %: 1 table, 15 s to go, 40 records, 4 records/s",
    "restoring 80 %: 1 table, 5 s to go, 80 records, 4 records/s",
    "all tables are restored",
  ]);
});

test("standbys are no news, and a task that goes is not whole", () => {
  const { lines, time, progress } = logging();
  for (let second = 0; second < 25; second++) {
    time.now = second * 1000;
    progress.watch(restoring(task(0, "standby"), 1, 99));
  }
  progress.watch(restoring(task(), 1, 99));
  progress.watch({ type: "lost", task: task(), code: "fenced", message: "" });
  assert.deepEqual(lines, []);
});

test("a bar", () => {
  const terminal = new Terminal();
  const { lines, time, progress } = logging(terminal);
  progress.watch(restoring(task(), 50, 50, 10));
  progress.watch(restoring(task(), 60, 40, 10)); // too soon to be drawn
  time.now = 1000;
  progress.watch(restoring(task(), 75, 25, 10));
  time.now = 2000; // what does not fit into a line is cut: it would be drawn again and again
  terminal.columns = 60;
  progress.watch(restoring(task(), 75, 25, 0, "a transaction"));
  progress.watch({ type: "lost", task: task(), code: "fenced", message: "" });
  const drawn = terminal.text.split("\r");
  assert.deepEqual(
    drawn.map((line) => line.trimEnd()).filter((line) => line !== ""),
    [
      "restoring [############............]  50 % 1 table, 5 s to go, 50 records, 10 records/s",
      "restoring [##################......]  75 % 1 table, 3 s to go, 75 records, 10 records/s",
      "restoring [##################......]  75 % 1 table, waits f",
    ],
  );
  assert.equal(drawn.at(-1), ""); // the cursor is at the beginning of an empty line
  assert.equal(drawn.at(-2)?.length, 59); // and no line is longer than the terminal
  assert.deepEqual(lines, []);
});
