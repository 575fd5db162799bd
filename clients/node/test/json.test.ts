/** Numbers as they are written, and what JSON.parse alone would not tell. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { parse, utf8 } from "../src/json.js";

const marked = (text: string) => ({ text });

/** Read with the slow reader: a number of 16 digits at the end makes sure of it. */
function slow(text: string): unknown {
  const found = parse(`[${text},1234567890123456]`, (digits) => digits);
  assert.ok(Array.isArray(found));
  assert.equal(found[1], "1234567890123456");
  return found[0];
}

test("what is written differently is told apart", () => {
  const text = "[1,1.0,1e1,-0,10,123456789012345,1234567890123456,-5]";
  const found = [
    1,
    marked("1.0"),
    marked("1e1"),
    marked("-0"),
    10,
    123456789012345,
    marked("1234567890123456"),
    -5,
  ];
  assert.deepEqual(parse(text, marked), found);
});

test("both readers read the same", () => {
  const texts = [
    '""',
    '"a"',
    '"\\\\"',
    '"\\""',
    '"\\\\\\""',
    '"\\u00e9\\n"',
    '"]}, 1.5 {["',
    "[]",
    "{}",
    "[[],[{}]]",
    ' { "a" : [ 1 , true , false , null ] , "b\\"" : { "" : "x" } } ',
    '{"a":1,"b":2,"a":3}',
    "\t\r\n[\n1\t]",
  ];
  for (const text of texts) {
    assert.deepEqual(slow(text), JSON.parse(text), text);
  }
});

test("a name such as __proto__ is a member like any other", () => {
  for (const read of [slow, (text: string) => parse(text, Number)]) {
    const found = read('{"__proto__":{"a":1},"constructor":2}');
    assert.deepEqual(Object.keys(found as object), ["__proto__", "constructor"]);
    assert.equal(Object.getPrototypeOf(found), Object.prototype);
  }
});

test("what is no JSON is refused before it is read again", () => {
  for (const text of [
    "",
    "1.",
    "01",
    "1.5]",
    "[1.5,]",
    '{"a":1.5,}',
    "+1.5",
    "1.5 2.5",
    "'1.5'",
    "\ufeff1.5",
  ]) {
    assert.throws(() => parse(text, Number), SyntaxError, text);
  }
});

test("a long string of escapes is read", () => {
  const text = JSON.stringify('\\"'.repeat(1_000_000));
  assert.equal(slow(text), JSON.parse(text));
});

test("deep nesting ends in an error of its own", () => {
  const deep = (n: number) => `${"[".repeat(n)}1.5${"]".repeat(n)}`;
  assert.ok(Array.isArray(parse(deep(1000), Number)));
  assert.throws(() => parse(deep(1_000_000), Number), RangeError);
});

test("UTF-8 is read strictly, and a byte order mark stays", () => {
  assert.equal(utf8(Buffer.from("é€😀")), "é€😀");
  assert.equal(utf8(Buffer.from("\ufeffa")), "\ufeffa");
  for (const hex of ["80", "c3", "c0af", "eda080", "f4908080", "ff"]) {
    assert.throws(() => utf8(Buffer.from(hex, "hex")), TypeError, hex);
  }
});
