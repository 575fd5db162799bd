/** A batch as user code sees it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { SLAB } from "../src/apply.js";
import { Batch } from "../src/batch.js";
import { FrameKind } from "../src/codes.js";
import { type Columns, encode } from "../src/encode.js";
import { parse } from "../src/frames.js";
import { NOBODY } from "../src/testing/writes.js";

const bytes = (text: string) => Buffer.from(text);

function batch(columns: Partial<Columns> = {}, fence = { broken: false }): Batch {
  const data = encode({
    kind: FrameKind.Restore,
    stream: 4,
    epoch: 1,
    base: 10,
    next: 20,
    keys: [bytes("a"), bytes("b"), null, bytes("a")],
    values: [bytes("1"), null, bytes("x"), bytes("")],
    ...columns,
  });
  return new Batch(parse(data), NOBODY, "topic", "table", fence);
}

test("what it says of itself", () => {
  const found = batch({ checkpoint: "v1:x" });
  assert.deepEqual(
    [
      found.length,
      found.baseOffset,
      found.nextOffset,
      found.checkpoint,
      found.stream,
      found.topic,
      found.name,
    ],
    [4, 10, 20, "v1:x", 4, "topic", "table"],
  );
  assert.equal(found.task, NOBODY);
  assert.equal(found.logAppendTime, false);
  assert.equal(batch().checkpoint, null);
  assert.ok(found.byteLength > 48);
});

test("null is not empty", () => {
  const found = batch();
  assert.deepEqual(
    [0, 1, 2, 3].map((i) => found.keyAt(i)?.toString()),
    ["a", "b", undefined, "a"],
  );
  assert.equal(found.keyAt(2), null);
  assert.equal(found.valueAt(1), null);
  assert.deepEqual(found.valueAt(3), Buffer.of());
  assert.equal(found.keyTextAt(2), null);
  assert.equal(found.keyTextAt(3), "a");
});

test("records come as objects, too", () => {
  const found = batch({ timestamps: [1, 2, 3, 4], offsets: [10, 12, 15, 19] });
  assert.deepEqual(Array.from(found), [
    { offset: 10, timestamp: 1, key: bytes("a"), value: bytes("1") },
    { offset: 12, timestamp: 2, key: bytes("b"), value: null },
    { offset: 15, timestamp: 3, key: null, value: bytes("x") },
    { offset: 19, timestamp: 4, key: bytes("a"), value: Buffer.of() },
  ]);
  assert.deepEqual(
    Array.from(batch(), (row) => row.timestamp),
    [undefined, undefined, undefined, undefined],
  );
});

test("a record that is not there is an error, not one that is empty", () => {
  const found = batch({ timestamps: [1, 2, 3, 4] });
  const reads: ((i: number) => unknown)[] = [
    found.keyAt,
    found.valueAt,
    found.keyCopyAt,
    found.keyTextAt,
    found.offsetAt,
    found.timestampAt,
    found.headersAt,
  ];
  for (const i of [-1, 4, 1.5, Number.NaN]) {
    for (const read of reads) {
      assert.throws(() => read.call(found, i), RangeError, `${read.name} ${i}`);
    }
  }
});

test("views keep the frame, copies do not", () => {
  const found = batch();
  const [view, copy] = [found.valueAt(0), found.valueCopyAt(0)];
  assert.ok(view && copy);
  assert.deepEqual(view, copy);
  view[0] = 50;
  assert.equal(found.valueAt(0)?.toString(), "2");
  assert.equal(copy.toString(), "1");
});

test("a batch of a stream that is fenced is stale", () => {
  const fence = { broken: false };
  const found = batch({}, fence);
  assert.equal(found.stale, false);
  fence.broken = true;
  assert.equal(found.stale, true);
});

test("timestamps: any 64-bit number, rounded one by one", () => {
  const stamps = [-1n, 0n, 1_700_000_000_123n, -(2n ** 63n)];
  const found = batch({ timestamps: stamps, logAppendTime: true });
  assert.deepEqual([...(found.timestamps ?? [])], stamps);
  assert.deepEqual(
    [0, 1, 2, 3].map((i) => found.timestampAt(i)),
    [-1, 0, 1_700_000_000_123, -(2 ** 63)],
  );
  assert.equal(found.logAppendTime, true);
});

test("applied to a map the last value counts, and tombstones remove", () => {
  const table = new Map([
    ["b", bytes("old")],
    ["c", bytes("kept")],
  ]);
  const found = batch({
    keys: [bytes("a"), bytes("b"), null, bytes("d"), bytes("d"), Buffer.of(255)],
    values: [bytes("1"), null, bytes("x"), null, bytes("2"), bytes("")],
  });
  found.applyTo(table);
  const due = new Map([
    ["c", bytes("kept")],
    ["a", bytes("1")],
    ["d", bytes("2")],
    ["\xff", Buffer.of()],
  ]);
  assert.deepEqual(table, due);
});

test("large offsets are numbers", () => {
  const base = Number.MAX_SAFE_INTEGER - 10;
  const found = batch({ base, next: Number.MAX_SAFE_INTEGER });
  assert.deepEqual(
    [found.offsetAt(0), found.offsetAt(3), found.nextOffset],
    [base, base + 3, Number.MAX_SAFE_INTEGER],
  );
});

test("copies of values are their own, and small ones keep no more than a piece of each other", () => {
  const sizes = [
    0,
    1,
    110,
    SLAB - 1,
    SLAB,
    SLAB + 1,
    3 * SLAB,
    3,
    ...Array.from({ length: 300 }, (_, i) => i),
  ];
  const values = sizes.map((size, i) => (i % 7 === 5 ? null : Buffer.alloc(size, i)));
  const keys = sizes.map((_, i) => bytes(`k${i}`));
  const found = batch({ keys, values, next: 10 + sizes.length });
  const table = new Map<string, Buffer>();
  found.applyTo(table);
  for (const [i, value] of values.entries()) {
    const copy = table.get(`k${i}`);
    assert.deepEqual(copy ?? null, value);
    if (copy !== undefined && value !== null) {
      assert.notEqual(copy.buffer, found.valueAt(i)?.buffer);
      assert.ok(copy.buffer.byteLength <= Math.max(SLAB, value.length));
    }
  }
});
