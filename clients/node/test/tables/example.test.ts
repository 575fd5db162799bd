/** The example of the documentation counts, and goes on where it was. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { connect } from "../../src/client.js";
import { FakeSidecar, play } from "../../src/testing/index.js";
import { SPEC } from "../spec.js";
import { directory } from "../stores/scratch.js";
import { count } from "./example.js";
import { b, text } from "./stage.js";

test("the example is the second one of docs/node-client.md", () => {
  const page = readFileSync(join(SPEC, "..", "docs", "node-client.md"), "utf8");
  const file = join(SPEC, "..", "clients", "node", "test", "tables", "example.ts");
  const shown = [...page.matchAll(/```ts\n(.*?)```/gs)][1]?.[1];
  assert.equal(
    shown,
    readFileSync(file, "utf8").replace('"../../src/client.js"', '"pillion/client"'),
  );
});

test("the example counts, and finds its counts again", async (t) => {
  const root = directory(t);
  const found = [];
  for (const words of [["to", "be", "or", "not", "to", "be"], ["to"]]) {
    await using sidecar = await FakeSidecar.listen();
    const records = words.map((word) => [null, b(word)] as const);
    const playing = play(sidecar, { words: records }, { batch: 4 });
    await using conn = await connect({
      url: sidecar.url,
      sets: [{ name: "words", sources: ["words"], tables: ["counts"] }],
    });
    await count(conn, root);
    const { tables, positions } = await playing;
    found.push([text(tables.get("counts") ?? []), positions.get("words")]);
  }
  assert.deepEqual(found, [
    [{ to: "2", be: "2", or: "1", not: "1" }, 6],
    [{ to: "3" }, 1],
  ]);
});
