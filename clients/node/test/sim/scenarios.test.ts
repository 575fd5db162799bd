/** Every scenario of spec/scenarios, against the conformance workers, in memory. */

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import type { work } from "../../conformance/protocol.js";
import { jobWorker } from "../../conformance/worker.js";
import { Connection } from "../../src/connection.js";
import { options } from "../../src/options.js";
import { SqliteStores } from "../../src/stores/index.js";
import { playMemory, read } from "../../src/testing/sim/conformance.js";
import { Fault } from "../../src/testing/sim/fault.js";
import type { Program } from "../../src/testing/sim/memory.js";
import { processClock } from "../../src/worker/clock.js";
import { inside } from "../../src/worker/inside.js";
import { SPEC } from "../spec.js";

const PATIENCE_MS = 30_000; // also where other work is done on the machine
const SCENARIOS = join(SPEC, "scenarios");
const JOB = join(import.meta.dirname, "../../conformance/protocol.js");
const CASES = readdirSync(SCENARIOS)
  .filter((name) => name.endsWith(".jsonl"))
  .map((name) => name.replace(".jsonl", ""))
  .sort();

/** Left to `pillion conformance`, which plays every case over a socket against a process. */
const NOT_IN_MEMORY: Readonly<Record<string, string>> = {
  blocked: "the worker blocks the loop, which is the player's too",
  busy: "a handshake is refused",
  handshake: "the proxy and the token of a real handshake",
  killed: "a process is killed",
  misaligned: "how bytes are cut into fragments",
  not_a_sidecar: "a handshake is refused",
  pieces: "how bytes are cut into writes",
  unauthorized: "a handshake is refused",
  unix_socket: "a real socket",
};

/** The conformance worker as a promise. */
async function program(path = JOB): Promise<Program> {
  const module = (await import(pathToFileURL(path).href)) as { work: typeof work };
  return ({ job, directory, dial, signal }) =>
    module.work({
      job,
      directory,
      signal,
      connect: async (given) => {
        const more = { url: "ws://127.0.0.1:1", notice: () => {} };
        const conn = new Connection(options({ ...given, ...more }, { dial }));
        await conn.open();
        return conn;
      },
    });
}

function scenario(name: string) {
  return read(join(SCENARIOS, `${name}.jsonl`));
}

/** The same job with Worker. */
function workerProgram(batches: boolean): Program {
  return async ({ job, directory, dial, signal }) => {
    const worker = jobWorker({ job, directory, batches });
    const made = worker[inside].options({ url: "ws://127.0.0.1:1", outside: { dial } });
    const runtime = worker[inside].runtime({
      connect: () => new Connection(made),
      stores: new SqliteStores(join(directory, "stores")),
      clock: processClock,
      commitIntervalMs: 2,
    });
    signal.addEventListener("abort", () => runtime.stop(), { once: true });
    await runtime.run();
  };
}

const PROGRAMS: Readonly<Record<string, Program>> = {
  "the client": await program(),
  "a worker that takes records": workerProgram(false),
  "a worker that takes batches": workerProgram(true),
};

// Most of the time is waiting.
describe("in memory", { concurrency: 24 }, () => {
  for (const [what, played] of Object.entries(PROGRAMS)) {
    for (const name of CASES.filter((each) => !(each in NOT_IN_MEMORY))) {
      test(`${name}: ${what}`, () => playMemory(scenario(name), played, PATIENCE_MS));
    }
  }
});

test("what is not in memory is there, and needs a wire or a process", () => {
  for (const name of Object.keys(NOT_IN_MEMORY)) {
    const { head, steps } = scenario(name); // one that is left out by mistake plays: this fails then
    const needs = steps.some(
      ({ verb, text }) =>
        verb === "refuse" ||
        verb === "ping" ||
        /"wire": \{(?!"glue": true\})|"KILL"|"block /.test(text),
    );
    assert.ok(needs || head.listen === "unix" || head.proxy === true, name);
  }
});

const MUTANTS: Readonly<Record<string, readonly [before: string, after: string, name: string]>> = {
  "null is written as empty": [
    "changes.push([key, value])",
    'changes.push([key, value ?? Buffer.from("")])',
    "null_and_empty",
  ],
  "a record counts twice": ["find(key) ?? 0) + 1", "find(key) ?? 0) + 2", "restore"],
  "outputs are forgotten": ["{ outputs: { changes } }", "{}", "process"],
  "rows are not read": ["counts?.find(key) ?? 0", "0", "pending"],
  "a row is not deleted": ["counts?.write(key, null)", "", "tombstones"],
  "another group": ['group: "conformance"', 'group: "other"', "assign"],
  "a global table is not read": ['tables.lookup("places", key)', "null", "global"],
  "it ends early": ["of tables)", "of [])", "process"],
  "it stands still": ["await handle(event.batch)", "await new Promise(() => {})", "process"],
  "a batch is left out": [
    'event.type === "records"',
    'event.type === "records" && event.batch.baseOffset > 0',
    "process",
  ],
};

describe("a worker that is wrong fails", { concurrency: 16 }, () => {
  for (const [mutant, [before, after, name]] of Object.entries(MUTANTS)) {
    test(mutant, async () => {
      const source = readFileSync(JOB, "utf8");
      assert.equal(source.split(before).length, 2);
      const path = JOB.replace(/\.js$/, `-${mutant.replaceAll(" ", "-")}.js`);
      writeFileSync(
        path,
        source.replace(before, () => after),
      );
      try {
        await assert.rejects(playMemory(scenario(name), await program(path), 500), Fault);
      } finally {
        rmSync(path);
      }
    });
  }
});

test("a fault says where the case stood", async () => {
  const lazy: Program = () => Promise.reject(new Error("no, thanks"));
  await assert.rejects(playMemory(scenario("assign"), lazy), (error) => {
    assert.ok(error instanceof Fault && error.stack !== undefined);
    for (const what of [
      /exit code 1: Error: no, thanks/,
      /assign, line 2: .*connect/,
      /hint: re of/,
    ]) {
      assert.match(error.message, what);
      assert.match(error.stack, what);
    }
    return true;
  });
});

test("a case that needs a socket is told from one that the worker fails", async () => {
  for (const name of ["killed", "misaligned"]) {
    await assert.rejects(playMemory(scenario(name), await program(), 500), RangeError);
  }
});

function written(...lines: string[]): () => void {
  return () => {
    const directory = mkdtempSync(join(tmpdir(), "pillion-"));
    const path = join(directory, "c.jsonl");
    writeFileSync(path, `${lines.join("\n")}\n`);
    try {
      read(path);
    } finally {
      rmSync(directory, { recursive: true });
    }
  };
}

const HEAD = '{"case": "c", "level": "tables", "job": "tables", "about": "a", "hint": "h"}';
const REFUSED: Readonly<Record<string, RegExp>> = {
  '{"conect": true}': /unknown step 'conect'/,
  '{"connect": true, "after": 1}': /unknown fields after/,
  '{"connect": 1}': /is not true/,
  '{"feed": "words/0", "per_frame": 2}': /unknown fields per_frame/,
  '{"feed": "words/0", "times": "2"}': /times is not a whole number/,
  '{"feed": "words/0", "records": [["k"]]}': /is no record/,
  '{"feed": "words/0", "records": [{"ky": "k"}]}': /unknown fields ky/,
  '{"feed": "words/0", "records": [["k", {"hx": "00"}]]}': /unknown fields hx/,
  '{"quiet": ["commit"]}': /ms is missing/,
  '{"wire": {"colour": "red"}}': /unknown fields colour/,
  "[]": /is no JSON object/,
  "{}": /no step/,
  "{": /JSON/,
};

for (const [line, why] of Object.entries(REFUSED)) {
  test(`${line} is refused`, () => {
    assert.throws(written(HEAD, line), (error) => {
      assert.ok(error instanceof Error);
      assert.match(error.message, /^c\.jsonl, line 2: /);
      assert.match(error.message, why);
      return true;
    });
  });
}

test("a head with what is not known is refused", () => {
  const head = '{"case": "c", "level": "tables", "job": "tables", "colour": "red"}';
  assert.throws(written(head), /line 1: .*unknown fields colour/);
  assert.throws(written(HEAD.replace('"c"', '"d"')), /line 1: .*is called 'd'/);
  assert.throws(written(HEAD.replace('"tables"', '"all"')), /line 1: .*level/);
  assert.throws(written(""), /no line with the case/);
});
