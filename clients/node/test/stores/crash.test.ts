/** INVARIANT: rows and checkpoint change together, whenever the process dies. */

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, utimesSync } from "node:fs";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { SqliteStores } from "../../src/stores/index.js";
import { conformanceTask, textRows } from "../../src/testing/store-conformance.js";
import { directory } from "./scratch.js";

const DYING = fileURLToPath(new URL("./dying.js", import.meta.url));
const TASK = conformanceTask("s");

/** Let it write for so many lines, kill it somewhere in what follows, and say the last it promised. */
async function killed(how: string, root: string, first: number, lines: number): Promise<number> {
  const child = spawn(process.execPath, [DYING, how, root, `${first}`], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let last = 0;
  let read = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    last = Math.max(last, Number(line));
    read += 1;
    if (read === lines) {
      child.kill("SIGKILL");
    }
  }
  assert.ok(read >= lines, "it ended by itself");
  return last;
}

for (const how of ["commit", "restore"]) {
  test(`a killed process leaves rows and checkpoint together: ${how}`, async (t) => {
    const root = directory(t);
    let last = 0;
    for (let round = 0; round < 4; round++) {
      last = Math.max(last, await killed(how, root, last + 1, 7 + 10 * round));
      const store = new SqliteStores(root).open(TASK, "t");
      assert.ok(!existsSync(`${store.path}.bad-1`));
      const reached = Number(store.checkpoint()?.replace("v1:", ""));
      assert.ok(reached >= last, `${last} was promised, ${reached} is there`);
      const values = new Set(textRows(store.items()).map(([, value]) => value));
      assert.deepEqual([...values], [`${reached}`]);
      assert.equal(store.size, 200);
      store.close();
      last = reached;
    }
  });
}

test("two processes share a directory, and one goes on with the other's file", async (t) => {
  const root = directory(t);
  const child = spawn(process.execPath, [DYING, "commit", root, "1"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  const gone = once(child, "exit");
  await once(child.stdout, "data");
  const standby = conformanceTask("s", "t", 0, "standby");
  const copy = new SqliteStores(root).open(standby, "t");
  assert.deepEqual([basename(copy.path), copy.checkpoint()], ["t.0.copy-2.sqlite", null]);
  for (const file of [copy.path, `${copy.path}-wal`]) {
    utimesSync(file, 1, 1); // so that the other's is the newest
  }
  child.stdout.resume();
  child.kill("SIGKILL"); // it lets go in a moment, for which an active waits
  const active = new SqliteStores(root, { openWithinMs: 60_000 }).open(TASK, "t");
  assert.equal(basename(active.path), "t.0.sqlite");
  assert.notEqual(active.checkpoint(), null);
  active.close();
  copy.close();
  await gone;
});

const BEFORE = { rows: { a: "1", b: "1", c: "1" }, checkpoint: "v1:1" };
const AFTER = { rows: { a: "2", c: "1", d: "2" }, checkpoint: "v1:2" };

test("a process dies at any step of a commit", (t) => {
  const root = directory(t);
  const found: unknown[] = [];
  for (let step = 1; step < 50; step++) {
    const place = join(root, `${step}`);
    const done = spawnSync(process.execPath, [DYING, "step", place, `${step}`]);
    if (done.stdout.toString() === "lived\n") {
      break;
    }
    assert.equal(done.signal, "SIGKILL", done.stderr.toString());
    const store = new SqliteStores(place).open(TASK, "t");
    found.push({
      rows: Object.fromEntries(textRows(store.items())),
      checkpoint: store.checkpoint(),
    });
    store.close();
  }
  // Before and after begin, three rows, checkpoint and commit, and once behind it.
  assert.equal(found.length, 13);
  assert.deepEqual(found.slice(0, 11), Array(11).fill(BEFORE));
  assert.deepEqual(found.slice(11), [AFTER, AFTER]);
});
