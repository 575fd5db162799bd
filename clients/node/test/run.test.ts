/** What a program ends with, in processes of their own. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";

const RUN = new URL("../src/run.js", import.meta.url).href;
const ERRORS = new URL("../src/errors.js", import.meta.url).href;

interface Ended {
  readonly code: number | null;
  readonly said: string;
}

/** Run a main; each line that it writes is answered with the next signal. */
async function ended(main: string, signals: NodeJS.Signals[] = []): Promise<Ended> {
  const program = `
    import { run } from ${JSON.stringify(RUN)};
    import { Drained, Superseded, SidecarUnreachable } from ${JSON.stringify(ERRORS)};
    const forever = setInterval(() => {}, 1000);
    const aborted = (signal) => new Promise((resolve) => signal.addEventListener("abort", resolve));
    await run(async (signal) => { ${main} });
    clearInterval(forever);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program]);
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  child.stdout.on("data", () => child.kill(signals.shift() ?? "SIGKILL"));
  const [code] = await once(child, "close");
  return { code, said };
}

test("a program that returns, and a sidecar that has drained", async () => {
  assert.deepEqual(await ended(""), { code: 0, said: "" });
  assert.deepEqual(await ended('throw new Drained("it has drained")'), { code: 0, said: "" });
});

test("errors of this package are one sentence, others have a stack", async () => {
  const refused = await ended('throw new Superseded("a newer worker is here")');
  assert.deepEqual(refused, { code: 2, said: "pillion: a newer worker is here (superseded)\n" });
  const away = await ended('throw new SidecarUnreachable("nobody answers")');
  assert.deepEqual(away, { code: 3, said: "pillion: nobody answers (sidecar_unreachable)\n" });
  const own = await ended('throw new Error("my own")');
  assert.equal(own.code, 1);
  assert.match(own.said, /Error: my own\n\s+at /);
});

test("the first signal lets the program finish", async () => {
  const finishing = 'const end = aborted(signal); console.log("up"); await end;';
  assert.deepEqual(await ended(finishing, ["SIGTERM"]), { code: 0, said: "" });
  assert.deepEqual(await ended(`${finishing} signal.throwIfAborted();`, ["SIGINT"]), {
    code: 0,
    said: "",
  });
  const failing = await ended(`${finishing} throw new Superseded("late");`, ["SIGINT"]);
  assert.equal(failing.code, 2);
});

test("the second signal ends a program that does not", async () => {
  const stubborn =
    'const end = aborted(signal); console.log("up"); await end; console.log("no"); await new Promise(() => {});';
  assert.deepEqual(await ended(stubborn, ["SIGTERM", "SIGINT"]), { code: 130, said: "" });
});
