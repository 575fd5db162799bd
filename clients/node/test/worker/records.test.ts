/** What handlers get: typed batches, and which records are not in them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { Batch as RawBatch } from "../../src/batch.js";
import { FrameKind } from "../../src/codes.js";
import { type Columns, encode } from "../../src/encode.js";
import { parse } from "../../src/frames.js";
import { bytes, int, json, type Serde, str } from "../../src/serdes/index.js";
import { NOBODY } from "../../src/testing/writes.js";
import { Topic } from "../../src/worker/declared.js";
import { cut, decode } from "../../src/worker/records.js";

const ONE = "\0\0\0\0\0\0\0\x01";

const data = (text: string | null) => (text === null ? null : Buffer.from(text));

function frame(
  keys: readonly (string | null)[],
  values: readonly (string | null)[],
  columns: Partial<Columns> = {},
): RawBatch {
  const made = encode({
    kind: FrameKind.Records,
    stream: 1,
    epoch: 1,
    base: 10,
    next: 20,
    keys: keys.map(data),
    values: values.map(data),
    ...columns,
  });
  return new RawBatch(parse(made), { ...NOBODY, partition: 3 }, "words", "words");
}

const topic = <K, V>(key: Serde<K>, value: Serde<V>) => new Topic("words", key, value);
const texts = topic(str(), str());

test("a batch is its columns", () => {
  const raw = frame(["a", null, "ä"], ["1", "2", null]);
  const { batch, bad } = decode(raw, texts);
  assert.deepEqual(
    [batch.keys, batch.values],
    [
      ["a", null, "ä"],
      ["1", "2", null],
    ],
  );
  assert.deepEqual(
    [...batch.items()],
    [
      ["a", "1"],
      [null, "2"],
      ["ä", null],
    ],
  );
  assert.equal(bad.size, 0);
  assert.deepEqual(
    [batch.length, batch.topic, batch.partition, batch.baseOffset, batch.nextOffset, batch.stale],
    [3, "words", 3, 10, 20, false],
  );
});

test("a record is all of it", () => {
  const header: [string, Buffer] = ["h", Buffer.from("x")];
  const raw = frame(["a", "b"], ["1", "2"], {
    offsets: [10, 15],
    timestamps: [5, 6],
    headers: [[], [header, header]],
  });
  const [first, second] = decode(raw, texts).batch;
  assert.ok(first !== undefined && second !== undefined);
  const { key, value, offset, timestamp, headers, topic, partition } = second;
  assert.deepEqual(
    [key, value, offset, timestamp, headers, topic, partition],
    ["b", "2", 15, 6, [header, header], "words", 3],
  );
  assert.deepEqual([first.offset, first.timestamp, first.headers], [10, 5, []]);
  assert.equal(decode(raw, texts).batch.at(1).offset, 15);
  assert.match(inspect(second), /key: 'b'.*value: '2'.*offset: 15/s);
  assert.throws(() => decode(raw, texts).batch.offsetAt(2), RangeError);
  assert.throws(() => decode(raw, texts).batch.at(2), RangeError);
});

test("no timestamps", () => {
  assert.equal(decode(frame(["a"], ["1"]), texts).batch.at(0).timestamp, undefined);
});

test("a batch of nothing", () => {
  const { batch, bad } = decode(frame([], []), texts);
  assert.deepEqual([batch.length, [...batch], [...batch.items()], bad.size], [0, [], [], 0]);
});

test("records that do not decode are left out, and why is told by row", () => {
  const raw = frame(["a", "b", "\ud800", null], ["not 8", ONE, ONE, ONE], {
    keys: [Buffer.from("a"), Buffer.from("b"), Buffer.of(0xff), null],
    offsets: [10, 12, 14, 16],
  });
  const { batch, bad } = decode(raw, topic(str(), int()));
  assert.deepEqual(batch.keys, ["b", null]);
  assert.deepEqual(
    Array.from(batch, (record) => record.offset),
    [12, 16],
  );
  assert.deepEqual([batch.offsetAt(1), batch.at(1).offset], [16, 16]);
  assert.deepEqual(
    Array.from(bad, ([row, error]) => [row, error.message]),
    [
      [0, "its value does not decode: 'not 8' is no Long: 5 bytes instead of 8 (undecodable)"],
      [2, "its key does not decode: hex ff is no UTF-8 (undecodable)"],
    ],
  );
});

test("what a serde of the user throws is kept as cause", () => {
  const cause = new RangeError("mine");
  const broken: Serde<string> = {
    encode: Buffer.from,
    decode() {
      throw cause;
    },
  };
  const error = decode(frame(["a"], ["1"]), topic(broken, str())).bad.get(0);
  assert.equal(error?.cause, cause);
  assert.equal(error?.text, "its key does not decode: RangeError: mine");
});

test("a cut batch ends before a row of the frame", () => {
  const raw = frame(["a", "b", "c", "d"], ["x", ONE, "y", ONE]);
  const { batch, bad } = decode(raw, topic(str(), int()));
  assert.deepEqual([...bad.keys()], [0, 2]);
  const before = cut(raw, batch, bad, 2);
  assert.deepEqual([before.keys, before.values.length, before.at(0).offset], [["b"], 1, 11]);
  assert.equal(cut(raw, batch, bad, 0).length, 0);
});

test("decoded bytes are copies, and so are texts of every kind", () => {
  const raw = frame(["a", null], ["1", ""]);
  const { batch } = decode(raw, topic(bytes(), bytes()));
  const view = raw.keyAt(0) ?? assert.fail();
  const key = batch.keys[0] ?? assert.fail();
  view[0] = 0;
  assert.deepEqual(
    [Buffer.from(key).toString(), batch.keys[1], batch.values[1]?.length],
    ["a", null, 0],
  );
});

test("texts are those of each record alone", () => {
  // Each half is no UTF-8, the two together are.
  const halves = [Buffer.of(0xc3), Buffer.of(0xa4)];
  const raw = frame(["", ""], ["", ""], { keys: halves });
  assert.deepEqual([...decode(raw, texts).bad.keys()], [0, 1]);
  const many = ["", "a", "ab", "0123456789abc", "x".repeat(300), "\x7f", "\0"];
  const mixed = ["", "a", "", "0123456789abc", "b", null, "0123456789ab"];
  for (const keys of [many, mixed, ["", ""], [null], [...many, "é", "😀"]]) {
    assert.deepEqual(decode(frame(keys, keys), texts).batch.keys, keys);
    assert.deepEqual(decode(frame(keys, keys), texts).batch.values, keys);
  }
});

test("what is not read of a batch is nevertheless checked", () => {
  const { bad } = decode(frame(["a"], ["{"]), topic(str(), json()));
  assert.match(bad.get(0)?.text ?? "", /^its value does not decode: '\{' is no JSON/);
});
