/**
 * The scenarios that need a real socket or process, against the conformance worker; test/sim plays
 * the others in memory, and `pillion conformance` all of them.
 */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { read } from "../../src/testing/sim/conformance.js";
import { playProcess } from "../../src/testing/sim/process.js";
import { SPEC } from "../spec.js";

const PROGRAMS = {
  "the protocol-level worker": ["run-protocol.js"],
  "the one written with Worker": ["run-worker.js", "each"],
};
const SCENARIOS = join(SPEC, "scenarios");
const NEEDS_A_WIRE = /^\{"(?:refuse|wire|ping)"|"listen": *"unix"|"proxy": *true|"KILL"|"block /m;
const CASES = readdirSync(SCENARIOS)
  .filter((file) => NEEDS_A_WIRE.test(readFileSync(join(SCENARIOS, file), "utf8")))
  .map((file) => join(SCENARIOS, file));

for (const [name, [file = "", ...given]] of Object.entries(PROGRAMS)) {
  const program = fileURLToPath(new URL(`../../conformance/${file}`, import.meta.url));
  const command = [process.execPath, program, ...given];
  // Most of the time is waiting.
  test(`${name}, over sockets`, { concurrency: 4 }, async (t) => {
    assert.ok(CASES.length > 0);
    const play = (each: string) => t.test(basename(each), () => playProcess(read(each), command));
    await Promise.all(CASES.map(play));
  });
}

test("a program that is no worker fails, with what it printed", async () => {
  const program = "console.log('I am none'); process.exitCode = 7";
  const scenario = read(join(SCENARIOS, "process.jsonl"));
  await assert.rejects(playProcess(scenario, [process.execPath, "-e", program]), {
    name: "Fault",
    message: /came the worker's process ended with exit code 7.*I am none/s,
  });
});
