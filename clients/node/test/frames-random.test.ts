/** Frames that somebody has tampered with: refused as a whole, or readable to the last byte. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Batch } from "../src/batch.js";
import { encode } from "../src/encode.js";
import { FrameError } from "../src/errors.js";
import { parse } from "../src/frames.js";
import { NOBODY } from "../src/testing/writes.js";
import { Random } from "./random.js";
import { hex, load } from "./spec.js";

const ROUNDS = 300; // of each vector

const FILES = load<{ valid: { name: string; hex: string }[] }>("vectors", "frames");

/** Everything that a frame says, by what user code has. */
function read(data: Uint8Array) {
  const frame = parse(data);
  const batch = new Batch(frame, NOBODY, "t", "t");
  const records = Array.from(batch, (row, i) => ({ ...row, headers: batch.headersAt(i) }));
  return { frame, batch, records };
}

for (const [kind, { valid }] of FILES) {
  test(`${kind}: a frame with changed bytes is refused, or read and written again`, () => {
    const random = new Random(11);
    const next = (end: number) => random.below(end);
    let refused = 0;
    let taken = 0;
    for (const vector of valid) {
      for (let round = 0; round < ROUNDS; round++) {
        const data = hex(vector.hex);
        for (let i = next(3); i >= 0; i--) {
          data[next(data.length)] = next(2) ? next(256) : ([0, 1, 0x7f, 0x80, 0xff][next(5)] ?? 0);
        }
        try {
          const { frame, batch, records } = read(data);
          taken++;
          const again = encode({
            kind: frame.kind,
            stream: frame.stream,
            epoch: frame.epoch,
            base: frame.base,
            next: frame.next,
            keys: records.map((each) => each.key),
            values: records.map((each) => each.value),
            timestamps: batch.timestamps && [...batch.timestamps],
            logAppendTime: batch.logAppendTime,
            offsets: frame.offsetDeltas && records.map((each) => each.offset),
            headers: frame.headerLengths && records.map((each) => each.headers),
            checkpoint: frame.checkpoint,
          });
          assert.deepEqual(read(again).records, records);
        } catch (error) {
          assert.ok(
            error instanceof FrameError,
            error instanceof Error ? error.stack : String(error),
          );
          refused++;
        }
      }
    }
    assert.ok(refused > 100 && taken > 100, `${refused} refused, ${taken} taken`);
  });
}
