/**
 * Random worlds: a worker keeps its promises, whatever happens to it and in whatever order.
 *
 * A failure names its seed; SEED=<n> WORLDS=1 plays that world alone, the same each time.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { FAULTS } from "./world/faults.js";
import { live } from "./world/world.js";

const SEED = Number(process.env.SEED ?? 0);
const WORLDS = Number(process.env.WORLDS ?? 40);

test("random worlds", async () => {
  for (let seed = SEED; seed < SEED + WORLDS; seed++) {
    try {
      await live(seed);
    } catch (error) {
      throw new Error(`seed ${seed}: ${String(error)}`, { cause: error });
    }
  }
});

test("a world is the same each time", async () => {
  const [one, other] = [await live(7), await live(7)];
  assert.ok(one.app.calls > 0);
  assert.equal(one.app.calls, other.app.calls);
  assert.deepEqual(one.sidecar.kafka.outputs, other.sidecar.kafka.outputs);
  assert.equal(one.rng.next(), other.rng.next());
});

/** Worlds within which each fault is found. */
const ENOUGH = 200;
/** Where to look first, for what few worlds find. */
const FIRST: Readonly<Record<string, number>> = { "rows do not wait": 65 };

for (const [name, fault] of Object.entries(FAULTS)) {
  test(`worlds find it when ${name}`, async (t) => {
    fault(t);
    const first = FIRST[name] ?? 0;
    for (let seed = first; seed < first + ENOUGH; seed++) {
      try {
        await live(seed);
      } catch (error) {
        t.diagnostic(`seed ${seed}: ${String(error)}`);
        return;
      }
    }
    assert.fail(`${ENOUGH} worlds have not found it`);
  });
}
