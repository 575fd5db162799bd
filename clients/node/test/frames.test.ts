/** Every frame vector of the specification. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Batch } from "../src/batch.js";
import { FrameFlag, FrameKind } from "../src/codes.js";
import { encode } from "../src/encode.js";
import { FrameError } from "../src/errors.js";
import { type Frame, parse } from "../src/frames.js";
import { NOBODY } from "../src/testing/writes.js";
import { hex, load, type Raw, raw } from "./spec.js";

interface Decoded {
  readonly kind: string;
  readonly stream: number;
  readonly epoch: number;
  readonly base?: number;
  readonly commit?: number;
  readonly next?: number;
  readonly log_append_time?: boolean;
  readonly checkpoint?: string;
  readonly records: readonly {
    readonly offset?: number;
    readonly timestamp?: number | string;
    readonly key: Raw;
    readonly value: Raw;
    readonly headers?: readonly (readonly [Raw, Raw])[];
  }[];
}
interface Valid {
  readonly name: string;
  readonly hex: string;
  readonly frame: Decoded;
}
interface Invalid {
  readonly name: string;
  readonly hex: string;
  readonly reason: string;
}

const FILES = load<{ valid: Valid[]; invalid: Invalid[] }>("vectors", "frames");
const KINDS = new Map<string, FrameKind>([
  ["records", FrameKind.Records],
  ["restore", FrameKind.Restore],
  ["writes", FrameKind.Writes],
]);

type Meaning = ReturnType<typeof meaning>;

function meaning(frame: Frame) {
  const batch = new Batch(frame, NOBODY, "t", "t");
  const timestamps = batch.timestamps;
  return {
    kind: frame.kind,
    stream: frame.stream,
    epoch: frame.epoch,
    base: batch.baseOffset,
    next: batch.nextOffset,
    logAppendTime: batch.logAppendTime,
    checkpoint: batch.checkpoint ?? "",
    records: Array.from({ length: batch.length }, (_, i) => ({
      offset: batch.offsetAt(i),
      timestamp: timestamps?.[i],
      key: batch.keyAt(i),
      value: batch.valueAt(i),
      headers: batch.headersAt(i).map(([key, value]) => [bytesOf(key), value] as const),
    })),
  };
}

/** A header's key is text; bytes that are none come back as they were. */
function bytesOf(key: string): Buffer {
  const bytes = Array.from(key, (character) => {
    const code = character.charCodeAt(0);
    const escaped = character.length === 1 && code >= 0xdc80 && code <= 0xdcff;
    return escaped ? Buffer.of(code - 0xdc00) : Buffer.from(character);
  });
  return Buffer.concat(bytes);
}

function wanted(frame: Decoded): Meaning {
  const base = frame.base ?? frame.commit ?? Number.NaN;
  const kind = KINDS.get(frame.kind);
  assert.ok(kind !== undefined);
  return {
    kind,
    stream: frame.stream,
    epoch: frame.epoch,
    base,
    next: frame.next ?? 0,
    logAppendTime: frame.log_append_time ?? false,
    checkpoint: frame.checkpoint ?? "",
    records: frame.records.map((record, i) => ({
      offset: record.offset ?? base + i,
      timestamp: record.timestamp === undefined ? undefined : BigInt(record.timestamp),
      key: raw(record.key),
      value: raw(record.value),
      headers: (record.headers ?? []).map(
        ([key, value]) => [raw(key) ?? Buffer.of(), raw(value)] as const,
      ),
    })),
  };
}

test("every frame kind has vectors, and every file of vectors a kind", () => {
  assert.deepEqual([...FILES.keys()].sort(), [...KINDS.keys()].sort());
  assert.deepEqual([...KINDS.values()].sort(), Object.values(FrameKind).sort());
});

for (const [kind, { valid, invalid }] of FILES) {
  for (const { name, hex: text, frame } of valid) {
    const due = wanted(frame);
    const data = hex(text);

    test(`${kind}: ${name}, at every alignment`, () => {
      for (let shift = 0; shift < 8; shift++) {
        const memory = new Uint8Array(new ArrayBuffer(8 + data.length));
        memory.set(data, shift);
        const message = memory.subarray(shift, shift + data.length);
        assert.deepEqual(meaning(parse(message)), due);
        assert.deepEqual(meaning(parse(Buffer.from(memory.buffer, shift, data.length))), due);
      }
    });

    test(`${kind}: ${name}, any other length is refused`, () => {
      for (let size = 0; size < data.length; size++) {
        assert.throws(() => parse(data.subarray(0, size)), FrameError);
      }
      assert.throws(() => parse(Buffer.concat([data, Buffer.of(0)])), FrameError);
    });

    test(`${kind}: ${name}, encoded it means the same`, () => {
      const rows = due.records;
      const batch = new Batch(parse(data), NOBODY, "t", "t");
      const timed = rows[0]?.timestamp !== undefined;
      const made = encode({
        kind: due.kind,
        stream: due.stream,
        epoch: due.epoch,
        base: due.base,
        next: due.next,
        keys: rows.map((row) => row.key),
        values: rows.map((row) => row.value),
        timestamps: timed ? rows.map((row) => row.timestamp ?? 0n) : undefined,
        logAppendTime: due.logAppendTime,
        offsets: rows.some((row, i) => row.offset !== due.base + i)
          ? rows.map((row) => row.offset)
          : undefined,
        headers: rows.some((row) => row.headers.length > 0)
          ? rows.map((_, i) => batch.headersAt(i))
          : undefined,
        checkpoint: due.checkpoint,
      });
      // A frame of no records has no timestamps to say it of.
      const again = { ...meaning(parse(made)), logAppendTime: due.logAppendTime };
      assert.deepEqual(again, due);
    });
  }

  for (const { name, hex: text, reason } of invalid) {
    test(`${kind} refused: ${name}`, () => {
      assert.throws(
        () => parse(hex(text)),
        (error) => {
          assert.ok(error instanceof FrameError, String(error));
          assert.equal(error.reason, reason);
          assert.equal(error.code, "bad_message");
          return true;
        },
      );
    });
  }
}

test("columns are views over what came, where its address allows it", () => {
  const data = encode({
    kind: FrameKind.Restore,
    stream: 1,
    epoch: 1,
    base: 0,
    next: 2,
    keys: [Buffer.from("a"), null],
    values: [Buffer.of(), Buffer.from("b")],
  });
  const memory = new ArrayBuffer(data.length + 4);
  for (const shift of [0, 4]) {
    const view = Buffer.from(memory, shift, data.length);
    data.copy(view);
    const frame = parse(view);
    assert.equal(frame.keyLengths.buffer, memory);
    assert.equal(new Batch(frame, NOBODY, "t", "t").keyAt(0)?.buffer, memory);
  }
  const askew = Buffer.from(memory, 1, data.length);
  data.copy(askew);
  assert.notEqual(parse(askew).keyLengths.buffer, memory);
  assert.equal(parse(askew).flags, FrameFlag.NullKeys);
});
