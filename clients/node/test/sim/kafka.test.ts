/** Kafka as lists, where keys go, and time that stands still. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { ManualClock } from "../../src/testing/sim/clock.js";
import { Kafka, Log } from "../../src/testing/sim/kafka.js";
import { murmur2, partitionOf } from "../../src/testing/sim/partitioner.js";

const bytes = (text: string) => Buffer.from(text);

test("keys go where Kafka puts them", () => {
  // The values of Kafka's own UtilsTest.testMurmur2.
  const known = {
    "21": -973932308,
    foobar: -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8: -58897971,
    abc: 479470107,
  };
  for (const [key, hashed] of Object.entries(known)) {
    assert.equal(murmur2(bytes(key)), hashed);
    assert.equal(partitionOf(bytes(key), 7), (hashed & 0x7fffffff) % 7);
  }
  assert.equal(partitionOf(null, 7), 0);
});

test("a log numbers what has no offset, and finds what is at a position", () => {
  const log = new Log();
  log.append([
    { key: bytes("a"), value: bytes("1") },
    { key: bytes("b"), value: bytes("2"), offset: 4 },
    { key: bytes("a"), value: null },
    { key: null, value: bytes("3") },
  ]);
  const offsets = (from: number, until?: number) =>
    log.since(from, until).map(({ offset }) => offset);
  assert.deepEqual(offsets(0), [0, 4, 5, 6]);
  assert.deepEqual(offsets(1), [4, 5, 6]);
  assert.deepEqual(offsets(4, 6), [4, 5]);
  assert.deepEqual(offsets(7), []);
  assert.equal(log.end, 7);
  assert.deepEqual(log.rows(), new Map([["b", bytes("2")]]));
});

test("checkpoints differ, and the newest is told from those that nobody may have", () => {
  const kafka = new Kafka();
  const marks = [kafka.checkpoint("t", 0, 3), kafka.checkpoint("t", 0, 3), "", ""];
  marks[2] = kafka.checkpoint("t", 0, 9, true);
  marks[3] = kafka.checkpoint("t", 1, 12);
  assert.equal(new Set(marks).size, 4);
  assert.ok(marks.every((mark) => /^[ -~]{1,128}$/.test(mark)));
  assert.equal(kafka.newest("t", 0), 3);
  assert.equal(kafka.newest("u", 0), 0);
});

test("time goes from call to call, and no further than it is told", () => {
  const clock = new ManualClock();
  const calls: string[] = [];
  clock.at(20, () => calls.push("late"));
  clock.at(10, () => calls.push("first"));
  clock.at(10, () => calls.push("second"));
  clock.at(10, () => calls.push("never")).cancel();
  clock.at(10, () => clock.at(10, () => calls.push("third")));
  assert.equal(clock.move(15), true);
  assert.deepEqual([calls, clock.now()], [["first", "second", "third"], 10]);
  assert.equal(clock.move(15), false);
  assert.equal(clock.now(), 15);
  assert.equal(clock.move(30), true);
  assert.deepEqual([calls.at(-1), clock.now()], ["late", 20]);
});
