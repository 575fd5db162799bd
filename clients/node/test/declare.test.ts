/** What a worker declares, and how wrong ones are refused before anybody is asked. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { decode, encode } from "../src/control.js";
import { type Declarations, declare } from "../src/declare.js";
import { UsageError } from "../src/errors.js";
import { CLIENT_VERSION, type ConnectOptions, hello, options } from "../src/options.js";
import { SPEC } from "./spec.js";

const URL_ = "ws://127.0.0.1:1";

test("sets, and what a plain name means", () => {
  const made = declare({
    group: "g",
    sets: [
      { name: "a", sources: ["x", "y"], tables: ["t", { name: "u", changelog: "u-log" }] },
      { name: "b", sources: ["z"], tables: [{ name: "s", sourceTopic: "up" }] },
    ],
    globals: [{ name: "g", topic: "places" }],
    outputs: ["o"],
  });
  assert.deepEqual(made.sets, [
    { name: "a", sources: ["x", "y"], tables: [{ name: "t" }, { name: "u", changelog: "u-log" }] },
    { name: "b", sources: ["z"], tables: [{ name: "s", sourceTopic: "up" }] },
  ]);
  const text = encode(
    hello(options({ url: URL_, sets: made.sets, globals: made.globals, outputs: ["o"] })),
  );
  const said = decode(text);
  assert.ok(said?.type === "hello");
  assert.equal(said.sets[1]?.tables[0]?.sourceTopic, "up");
});

test("sources and tables outside of sets", () => {
  const made = declare({ sources: ["x", "y"], tables: ["t", { name: "u", sources: ["y"] }] });
  assert.deepEqual(made.tables, [{ name: "t" }, { name: "u", sources: ["y"] }]);
  assert.deepEqual(made.sets, []);
});

test("what contradicts itself is refused in one sentence", () => {
  const set = { name: "a", sources: ["x"] };
  const cases: [Declarations, RegExp][] = [
    [{ outputs: "o" as never }, /outputs is "o"; give an array/],
    [{ sets: [set], sources: ["y"] }, /use one or the other/],
    [{ tables: ["t"] }, /tables are declared, but no sources/],
    [{ sets: [{ name: "a", sources: [] }] }, /set 'a' needs an array of one or more source topics/],
    [{ sets: [{ name: "a", sources: "x" as never }] }, /set 'a' needs an array/],
    [{ sets: [{ ...set, tables: [{ name: "t", sources: ["x"] }] }] }, /the set has them already/],
    [{ sources: ["x"], tables: [{ name: "t", sources: ["z"] }] }, /'z', which is not in sources/],
    [{ sets: [{ ...set, tables: [{ name: "t", changelog: "c", sourceTopic: "s" }] }] }, /give one/],
    [{ sets: [set, { ...set, sources: ["y"] }] }, /set or global table 'a' is declared twice/],
    [{ sets: [set, { ...set, name: "b" }] }, /source topic 'x' is declared twice/],
    [
      { sets: [{ ...set, tables: ["t"] }], globals: [{ name: "t", topic: "g" }] },
      /table 't' is declared/,
    ],
    [{ outputs: ["o", "o"] }, /output 'o' is declared twice/],
    [{ outputs: ["a b"] }, /'a b' is no name/],
    [{ sets: [{ name: "", sources: ["x"] }] }, /'' is no name/],
  ];
  for (const [given, text] of cases) {
    assert.throws(
      () => declare(given),
      (error) =>
        error instanceof UsageError && error.code === "bad_declaration" && text.test(error.message),
      String(text),
    );
  }
});

test("numbers that are none are refused", () => {
  for (const wrong of [{ window: 0 }, { maxFrame: 1.5 }, { replicas: -1 }] as ConnectOptions[]) {
    assert.throws(() => options({ url: URL_, ...wrong }), UsageError);
  }
});

test("the client says the version of its package", () => {
  const file = join(SPEC, "..", "clients", "node", "package.json");
  assert.equal(JSON.parse(readFileSync(file, "utf8")).version, CLIENT_VERSION);
});
