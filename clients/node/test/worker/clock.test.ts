/** Time, as the runtime sees it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { nextTick, processClock } from "../../src/worker/clock.js";

test("what waits for an interval here and there comes at the same moment", () => {
  assert.deepEqual(
    [0, 1, 99.9, 100, 101].map((now) => nextTick(now, 100)),
    [100, 100, 100, 200, 200],
  );
  let now = 1e9 + 0.3;
  for (let i = 0; i < 10_000; i++) {
    const tick = nextTick(now, 0.1);
    assert.ok(tick > now, `${tick} after ${now}`);
    now = tick;
  }
});

test("a call is made when it is that late, and not before", async () => {
  for (const ms of [0, 0.4, 1.7, 5.2]) {
    const when = processClock.now() + ms;
    const made = await new Promise<number>((resolve) => {
      processClock.at(when, () => resolve(processClock.now()));
    });
    assert.ok(made >= when, `${made} is before ${when}`);
  }
});

test("a time further away than timers count", (t) => {
  const timers: [call: () => void, ms: number][] = [];
  let now = 0;
  t.mock.method(performance, "now", () => now);
  t.mock.method(globalThis, "setTimeout", (call: () => void, ms: number) =>
    timers.push([call, ms]),
  );
  let calls = 0;
  const days = 40 * 24 * 3_600_000;
  processClock.at(days, () => calls++);
  for (const step of [2 ** 31 - 1, days - 2 ** 31 + 1]) {
    assert.equal(calls, 0);
    const [call, ms] = timers.shift() ?? assert.fail();
    assert.equal(ms, step); // setTimeout takes no more than 2 ** 31 - 1
    now += step;
    call();
  }
  assert.equal(calls, 1);
});

test("a cancelled call is not made", async () => {
  let calls = 0;
  const now = processClock.now();
  processClock.at(now, () => calls++).cancel();
  await new Promise<void>((resolve) => processClock.at(now + 1, resolve));
  assert.equal(calls, 0);
});
