/** Writes frames of a commit, and headers. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Batch } from "../src/batch.js";
import { FrameFlag, FrameKind } from "../src/codes.js";
import { cut, DEFAULT_TARGET, type OutputRecord, type RecordInit, writes } from "../src/encode.js";
import { CommitRejected, FrameError } from "../src/errors.js";
import { parse } from "../src/frames.js";
import { packHeaders, parseHeaders } from "../src/headers.js";
import { NOBODY } from "../src/testing/writes.js";

const LARGEST = 16 << 20;

function batches(records: Iterable<RecordInit>, largest = LARGEST): Batch[] {
  return writes(3, 7, 5, records, largest, "topic t").map((data) => {
    const frame = parse(data);
    assert.deepEqual(
      [frame.kind, frame.stream, frame.epoch, frame.base, frame.next],
      [FrameKind.Writes, 3, 7, 5, 0],
    );
    assert.ok(data.length <= Math.min(largest, DEFAULT_TARGET) || frame.count === 1);
    return new Batch(frame, NOBODY, "t", "t");
  });
}

function rows(of: readonly Batch[]): unknown[] {
  return of.flatMap((batch) => Array.from(batch, ({ key, value }) => [key, value]));
}

const bytes = (text: string) => Buffer.from(text);

test("rows of a table are pairs; null is not empty", () => {
  const pairs = [
    [bytes("a"), bytes("1")],
    [bytes("b"), null],
    [bytes(""), bytes("")],
    [null, bytes("x")],
  ] as const;
  const [batch, ...more] = batches(pairs);
  assert.ok(batch !== undefined && more.length === 0);
  assert.deepEqual(rows([batch]), pairs);
  assert.equal(batch.timestamps, undefined);
});

test("any iterable will do, and nothing makes no frame", () => {
  const table = new Map([[bytes("a"), bytes("1")]]);
  assert.deepEqual(rows(batches(table)), [...table]);
  assert.deepEqual(batches([]), []);
});

test("columns that nobody needs are left out, and those that one record needs are there for all", () => {
  const plain: OutputRecord = { key: bytes("k"), value: bytes("v") };
  assert.equal(parse(writes(1, 1, 1, [plain], LARGEST, "t")[0] ?? bytes("")).flags, 0);
  const before = Date.now();
  const [batch] = batches([
    plain,
    { ...plain, timestamp: 1 },
    { ...plain, headers: [["h", null]] },
  ]);
  assert.ok(batch !== undefined);
  assert.equal(batch.timestampAt(1), 1);
  const now = batch.timestampAt(0) ?? 0;
  assert.ok(now >= before && now <= Date.now());
  assert.deepEqual(
    [0, 1, 2].map((i) => batch.headersAt(i)),
    [[], [], [["h", null]]],
  );
});

test("frames stay within the target, and keep the order", () => {
  const records = Array.from(
    { length: 1000 },
    (_, i) => [bytes(`k${i}`), Buffer.alloc(1000 + i, i)] as const,
  );
  const made = batches(records);
  assert.ok(made.length > 4 && made.length < 8, String(made.length));
  assert.deepEqual(rows(made), records);
});

test("a record over the target travels alone, one over the largest frame is refused in words", () => {
  const large = [bytes("l"), Buffer.alloc(DEFAULT_TARGET + 1)] as const;
  const small = [bytes("s"), bytes("1")] as const;
  assert.deepEqual(
    batches([small, large, small]).map((batch) => batch.length),
    [1, 1, 1],
  );
  assert.throws(
    () => batches([small, [bytes("l"), Buffer.alloc(1000)]], 500),
    (error) => {
      assert.ok(error instanceof CommitRejected);
      assert.equal(error.code, "record_too_large");
      assert.match(
        error.message,
        /a record of 1026 bytes for topic t is larger than the 500 bytes/,
      );
      return true;
    },
  );
});

test("what is no bytes is refused in words", () => {
  const wrong = ["text", undefined, 5].map((key) => [key, null] as unknown as RecordInit);
  for (const pair of wrong) {
    assert.throws(() => batches([pair]), {
      name: "CommitRejected",
      code: "usage",
      message: /for topic t has/,
    });
  }
});

test("cut gives runs of records", () => {
  const records = Array.from({ length: 10 }, () => ({ key: bytes("k"), value: Buffer.alloc(100) }));
  assert.deepEqual(
    cut(records, 48 + 3 * 126, LARGEST, "t").map((run) => run.length),
    [3, 3, 3, 1],
  );
});

test("headers come back as they were, whatever their bytes", () => {
  const headers = [
    ["", null],
    ["é", bytes("")],
    ["a", Buffer.of(0, 255)],
    ["a", null],
    ["\udcff€\udc80", bytes("x")],
  ] as const;
  assert.deepEqual(parseHeaders(packHeaders(headers)), headers);
  assert.deepEqual(parseHeaders(packHeaders([])), []);
  assert.deepEqual(parseHeaders(Buffer.of()), []);
  for (const hex of ["ff", "eda080", "c3", "e282", "61ff62", "f09f98", "c3a9ff"]) {
    const raw = Buffer.concat([
      Buffer.from([1, 0, 0, 0, hex.length / 2, 0, 0, 0]),
      Buffer.from(hex, "hex"),
      Buffer.from([255, 255, 255, 255]),
    ]);
    assert.deepEqual(packHeaders(parseHeaders(raw)), raw, hex);
  }
});

test("headers that do not fit their length are refused", () => {
  const raw = packHeaders([["key", bytes("value")]]);
  for (let size = 1; size < raw.length; size++) {
    assert.throws(() => parseHeaders(raw.subarray(0, size)), FrameError);
  }
  assert.throws(() => parseHeaders(Buffer.concat([raw, Buffer.of(0)])), FrameError);
  assert.throws(() => parseHeaders(Buffer.from("ffffffff", "hex")), FrameError);
});

test("the flags of a frame are those of its columns", () => {
  const [data] = writes(
    1,
    1,
    1,
    [{ key: null, value: null, timestamp: 1, headers: [["a", null]] }],
    LARGEST,
    "t",
  );
  assert.equal(
    parse(data ?? bytes("")).flags,
    FrameFlag.Timestamps | FrameFlag.Headers | FrameFlag.NullKeys | FrameFlag.NullValues,
  );
});
