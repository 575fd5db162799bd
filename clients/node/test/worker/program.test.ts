/** worker.run(): whole programs, what they print, and their exit codes. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type TestContext, test } from "node:test";
import { CloseCode } from "../../src/codes.js";
import { FakeSidecar } from "../../src/testing/index.js";
import { positionsOf } from "./working.js";

const PILLION = new URL("../../src/index.js", import.meta.url).href;

interface Given {
  /** JavaScript: options of the worker. */
  readonly options?: string;
  /** JavaScript: what the program does last. */
  readonly last?: string;
}

/** A program that does what its records say. */
class Program {
  readonly child: ChildProcess;
  readonly lines: string[] = [];
  #err = "";

  constructor(url: string, { options = "{}", last = "await worker.run();" }: Given = {}) {
    const program = `
      import { int, skip, str, Worker } from ${JSON.stringify(PILLION)};
      const worker = new Worker({ group: "g", url: ${JSON.stringify(url)}, ...${options} });
      const words = worker.topic("words", { key: str(), value: str() });
      const counts = worker.table("counts", { key: str(), value: int(), default: () => 0 });
      worker.each(words, { tables: [counts] }, async function onWord({ value }, ctx) {
        const rows = ctx.table(counts);
        rows.set(value, rows.get(value) + 1);
        console.log(value);
        switch (value) {
          case "fail": throw new RangeError("no such word");
          case "hang": await new Promise(() => {}); break;
          case "stop": worker.stop();
        }
      });
      ${last}`;
    this.child = spawn(process.execPath, ["--input-type=module", "-e", program]);
    const { stdout, stderr } = this.child;
    assert.ok(stdout !== null && stderr !== null);
    createInterface({ input: stdout }).on("line", (line) => {
      this.lines.push(line);
      this.child.emit("line");
    });
    stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#err += text;
    });
  }

  async says(line: string): Promise<void> {
    while (!this.lines.includes(line)) {
      await once(this.child, "line");
    }
  }

  async ended(): Promise<{ readonly code: number | null; readonly err: string }> {
    const [code] = await once(this.child, "close");
    return { code, err: this.#err };
  }
}

async function listening(t: TestContext): Promise<FakeSidecar> {
  const sidecar = await FakeSidecar.listen();
  t.after(() => sidecar.close());
  return sidecar;
}

const words = (...values: string[]): [null, Buffer][] =>
  values.map((value) => [null, Buffer.from(value)]);

test("a failing handler", async (t) => {
  const sidecar = await listening(t);
  const program = new Program(sidecar.url);
  const ended = program.ended();
  const fake = await sidecar.accept();
  fake.records(await fake.start("words"), "words", words("a", "fail", "b"));
  const commit = await fake.commit();
  assert.deepEqual(positionsOf(commit), { words: 1 });
  fake.committed(commit);
  const { code, err } = await ended;
  assert.equal(code, 1);
  const lines = err.trimEnd().split("\n");
  assert.equal(
    lines.at(-1),
    "pillion: onWord has failed at words/0 offset 1: RangeError: no such word; what was before is " +
      "committed, and the next start begins there (handler_failed)",
  );
  assert.equal(lines[0], "RangeError: no such word");
  assert.match(lines[1] ?? "", /^ +at onWord/); // the user's code, and nothing of this package
  assert.equal(lines.length, 3, err);
});

test("a logger of the program gets what happens, and stderr nothing", async (t) => {
  const sidecar = await listening(t);
  const say = '(_, sentence) => console.log("mine", sentence)';
  const options = `{ logger: { debug() {}, info: ${say}, warn: ${say}, error: ${say} } }`;
  const program = new Program(sidecar.url, { options });
  const ended = program.ended();
  const fake = await sidecar.accept();
  fake.records(await fake.start("words"), "words", words("stop"));
  fake.committed(await fake.commit());
  assert.deepEqual(await ended, { code: 0, err: "" });
  assert.deepEqual(program.lines, [
    "mine task words/0 is assigned (active)",
    "mine task words/0 is whole, and begins at words 0",
    "stop",
  ]);
});

test("without a logger warnings are on stderr, and nothing else is", async (t) => {
  const sidecar = await listening(t);
  const program = new Program(sidecar.url, { options: "{ onError: skip() }" });
  const ended = program.ended();
  const fake = await sidecar.accept();
  fake.records(await fake.start("words"), "words", words("fail", "stop"));
  fake.committed(await fake.commit());
  assert.deepEqual(await ended, {
    code: 0,
    err: "pillion: words/0 offset 0 is skipped: onWord has thrown RangeError: no such word\n",
  });
});

test("SIGTERM finishes what is in hand", async (t) => {
  const sidecar = await listening(t);
  const program = new Program(sidecar.url);
  const ended = program.ended();
  const fake = await sidecar.accept();
  fake.records(await fake.start("words"), "words", words("a"));
  await program.says("a");
  program.child.kill("SIGTERM");
  fake.committed(await fake.commit());
  assert.deepEqual(await ended, { code: 0, err: "" });
});

test("a second signal ends at once", async (t) => {
  const sidecar = await listening(t);
  const last =
    'const running = worker.run(); process.on("SIGTERM", () => console.log("heard")); await running;';
  const program = new Program(sidecar.url, { last });
  const ended = program.ended();
  const fake = await sidecar.accept();
  fake.records(await fake.start("words"), "words", words("hang"));
  await program.says("hang");
  program.child.kill("SIGTERM");
  await program.says("heard");
  program.child.kill("SIGINT");
  assert.equal((await ended).code, 130);
});

test("ends that others have caused", async (t) => {
  const sidecar = await listening(t);
  for (const [close, code] of [
    [CloseCode.Drained, 0],
    [CloseCode.Superseded, 2],
  ] as const) {
    const ended = new Program(sidecar.url).ended();
    await (await sidecar.accept()).close(close);
    assert.equal((await ended).code, code);
  }
  const ended = new Program(sidecar.url).ended(); // it comes to one that drains already
  await (await sidecar.accept({ welcome: false })).close(CloseCode.Drained);
  assert.deepEqual(await ended, { code: 0, err: "" });
});

test("no sidecar", async () => {
  const url = "ws://127.0.0.1:9";
  const { code, err } = await new Program(url, { options: "{ connectTimeoutMs: 10 }" }).ended();
  assert.deepEqual(
    [code, err],
    [
      3,
      `pillion: no sidecar answers at ${url}; start it with 'pillion run', or set PILLION_URL to where it listens (sidecar_unreachable)\n`,
    ],
  );
});

test("a mistake in the declarations", async () => {
  const last = 'worker.topic("more", { key: str(), value: str() }); await worker.run();';
  const { code, err } = await new Program("ws://127.0.0.1:9", { last }).ended();
  assert.equal(code, 2);
  assert.match(err, /^pillion: topic 'more' has no handler; .* \(bad_declaration\)\n$/);
});

test("a stateDir that cannot be", async () => {
  const options = `{ stateDir: "/dev/null/state" }`;
  const { code, err } = await new Program("ws://127.0.0.1:9", { options }).ended();
  assert.equal(code, 2);
  assert.match(
    err,
    /^pillion: the stateDir \/dev\/null\/state cannot be made \(.*\); choose .*\n$/,
  );
});

test("tables in SQLite are there at the next start", async (t) => {
  const sidecar = await listening(t);
  const directory = mkdtempSync(join(tmpdir(), "pillion-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const options = `{ stateDir: ${JSON.stringify(join(directory, "deep", "state"))} }`;
  for (const [count, checkpoint] of [
    [1, null],
    [2, "v1:counts:one"],
  ] as const) {
    const ended = new Program(sidecar.url, { options }).ended();
    const fake = await sidecar.accept();
    const task = fake.assign("words");
    const opened = await fake.expect("opened");
    assert.equal(opened.checkpoints.get("counts"), checkpoint);
    await fake.restored(task);
    fake.records(task, "words", words("stop"));
    const commit = await fake.commit();
    const [row] = commit.changelog.get("counts") ?? [];
    assert.equal(row?.[1]?.readBigInt64BE(), BigInt(count));
    fake.committed(commit, { counts: "v1:counts:one" });
    assert.equal((await ended).code, 0);
  }
});

test("a started worker that fails with nobody who waits ends the program", async (t) => {
  const sidecar = await listening(t);
  const last = 'await worker.start(); console.log("up"); setInterval(() => {}, 1000);';
  const program = new Program(sidecar.url, { last });
  const ended = program.ended();
  const fake = await sidecar.accept();
  await program.says("up");
  await fake.close(CloseCode.Superseded);
  const { code, err } = await ended;
  assert.equal(code, 1);
  assert.match(err, /Superseded: .* \(superseded\)/);
});

test("a started worker says nothing, and leaves signals alone", async (t) => {
  const sidecar = await listening(t);
  const last = `
    await worker.start();
    console.log("listeners", process.listenerCount("SIGTERM") + process.listenerCount("SIGINT"));
    await worker.ended();`;
  const program = new Program(sidecar.url, { last, options: "{ onError: skip() }" });
  const ended = program.ended();
  const fake = await sidecar.accept();
  fake.send({ type: "waiting", code: "kafka_unreachable", message: "Kafka is away" });
  fake.records(await fake.start("words"), "words", words("fail", "stop"));
  fake.committed(await fake.commit());
  assert.deepEqual(await ended, { code: 0, err: "" });
  assert.equal(program.lines[0], "listeners 0");
});
