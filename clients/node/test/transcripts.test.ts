/** Every transcript of the specification, played against the protocol core. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { PLAIN } from "../src/encode.js";
import { HEADER_SIZE } from "../src/frames.js";
import type { Json } from "./lines.js";
import { Player } from "./player.js";
import { raw, SPEC } from "./spec.js";

const DIRECTORY = join(SPEC, "transcripts");
const FILES = readdirSync(DIRECTORY).filter((name) => name.endsWith(".jsonl"));

test("there are transcripts", () => {
  assert.ok(FILES.length >= 30);
});

for (const name of FILES.sort()) {
  test(`transcript ${name}`, () => {
    const text = readFileSync(join(DIRECTORY, name), "utf8");
    const lines: Json[] = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    if (name === "credit.jsonl") {
      oneRecordPerFrame(lines);
    }
    new Player(lines).play();
  });
}

/** Its frames hold one record each, which a core that may send larger ones would not do. */
function oneRecordPerFrame(lines: readonly Json[]): void {
  const records: Json[] = lines
    .filter((line) => line.from === "worker" && "frame" in line)
    .flatMap((line) => line.frame.records);
  const sizes = records.map(
    ({ key, value }) => (raw(key)?.length ?? 0) + (raw(value)?.length ?? 0),
  );
  for (const line of lines) {
    if (line.message?.type === "welcome") {
      line.message.limits.max_frame = HEADER_SIZE + PLAIN + Math.max(...sizes);
    }
  }
}
