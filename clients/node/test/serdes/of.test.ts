/** What is declared in place of a serde. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageError } from "../../src/errors.js";
import { canonical, json, type Serde, serdeOf, str, t } from "../../src/serdes/index.js";

const WHERE = "the key of topic 'lines'";

function advice(what: unknown, key: boolean): string {
  try {
    serdeOf(what as Serde<unknown>, key, WHERE);
  } catch (error) {
    assert.ok(error instanceof UsageError, String(error));
    return error.text;
  }
  assert.fail("it was taken");
}

test("serdes are taken, those of the user's too", () => {
  const own: Serde<string> = { encode: (value) => Buffer.from(value), decode: String };
  for (const serde of [str(), own, canonical(), canonical(t.int)] as Serde<unknown>[]) {
    assert.equal(serdeOf(serde, true, WHERE), serde);
    assert.equal(serdeOf(serde, false, WHERE), serde);
  }
  const value = json<number>();
  assert.equal(serdeOf(value, false, WHERE), value);
});

test("keys need one form", () => {
  assert.equal(
    advice(json(), true),
    `${WHERE}: keys need one form of JSON: write key: canonical(...)`,
  );
});

test("what was meant is said", () => {
  const cases: [unknown, RegExp][] = [
    [json, /functions: write key: canonical\(\)$/],
    [JSON, /this is JavaScript's JSON: write key: canonical\(\)/],
    [String, /: write str\(\), from pillion\/serdes$/],
    [Buffer, /: write bytes\(\),/],
    [
      t.object({ a: t.int }),
      /a shape is not a serde yet: write key: canonical\(\.\.\.\) around it/,
    ],
    [undefined, /: must be a serde .*, not undefined$/],
    [null, /not null$/],
    ["str", /: must be a serde \(an object with encode and decode\), not string$/],
    [{ encode: 1, decode: 2 }, /not Object$/],
  ];
  for (const [what, sentence] of cases) {
    assert.match(advice(what, true), sentence);
  }
  assert.match(advice(json, false), /write value: json\(\)$/);
});
