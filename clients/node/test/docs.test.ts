/** What the documentation shows is what is tested here. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { shout } from "./example.js";
import { SPEC } from "./spec.js";
import { records, until, Wire } from "./wire.js";

const ROOT = join(SPEC, "..");

test("the example is the one of docs/node-client.md", () => {
  const page = readFileSync(join(ROOT, "docs", "node-client.md"), "utf8");
  const file = readFileSync(join(ROOT, "clients", "node", "test", "example.ts"), "utf8");
  const shown = /```ts\n(.*?)```/s.exec(page)?.[1];
  assert.equal(shown, file.replace('"../src/client.js"', '"pillion/client"'));
});

test("the example shouts", async () => {
  const wire = new Wire({ sets: [{ name: "w", sources: ["w"] }], outputs: ["shouts"] });
  const worker = await wire.opened();
  const running = shout(wire.conn);
  worker.say({
    type: "assign",
    id: 1,
    task: "w/0",
    set: "w",
    partition: 0,
    role: "active",
    epoch: 1,
    sources: [{ topic: "w", stream: 1, position: 5 }],
    outputs: [{ topic: "shouts", stream: 4 }],
  });
  await until(() => worker.sent.length > 0, "opened");
  worker.expect("opened");
  worker.say({ type: "restored", id: 2, task: "w/0", epoch: 1 });
  await until(() => worker.sent.length > 0, "ready");
  worker.expect("ready");
  records(worker, 5, Buffer.from("hey"));
  await until(() => worker.sent.length > 1, "a commit");
  const frame = worker.next();
  assert.ok(frame instanceof Uint8Array && Buffer.from(frame).includes("HEY"));
  assert.deepEqual(worker.expect("commit").sourceNext, new Map([["w", 6]]));
  worker.say({ type: "aborted", re: 2, task: "w/0", epoch: 1, code: "fenced", message: "" });
  worker.say({ type: "lost", task: "w/0", epoch: 1, code: "fenced" });
  await wire.conn.close();
  await running;
});
