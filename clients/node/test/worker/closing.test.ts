/** A store that throws what it should not when it is closed. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryStore } from "../../src/stores/index.js";
import { App, staged } from "./working.js";

class Broken extends MemoryStore {
  override close(): void {
    throw new TypeError("it is broken");
  }
}

test("it ends the run with its error, and is no unhandled rejection", async (t) => {
  const unhandled: unknown[] = [];
  const hear = (error: unknown): void => void unhandled.push(error);
  process.on("unhandledRejection", hear);
  t.after(() => process.off("unhandledRejection", hear));
  const app = new App();
  const s = await staged(t, app.worker, { stores: { open: () => new Broken() } });
  const task = await s.open("words");
  s.fake.revoke(task);
  await assert.rejects(s.work, /it is broken/);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(unhandled, []);
});
