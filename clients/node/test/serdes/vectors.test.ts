/** The vectors of spec/serdes, which every language shares. */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bigint,
  bytes,
  canonical,
  float,
  int,
  json,
  Moment,
  type Serde,
  SerdeError,
  str,
  t,
} from "../../src/serdes/index.js";
import { hex, load } from "../spec.js";

interface Case {
  readonly name: string;
  readonly value?: unknown;
  readonly text?: string;
  readonly hex?: string;
  readonly untyped?: string;
}
interface FieldCase {
  readonly name: string;
  readonly type: string;
  readonly default?: unknown;
}
interface TypeCase {
  readonly name: string;
  readonly fields: readonly FieldCase[];
  readonly leg?: readonly FieldCase[];
  readonly valid: readonly { value: Members; text: string; canonical: string }[];
  readonly reads: readonly { value: Members; text: string }[];
  readonly invalid: readonly { text: string; field: string }[];
}
type Members = Readonly<Record<string, unknown>>;
type List = "valid" | "invalid" | "refused" | "numbers" | "reads";
type File = { readonly [L in List]?: readonly Case[] } & { readonly types?: readonly TypeCase[] };

const FILES = load<File>("serdes");
const READ = new Set<string>();

/** Make a test of each case of a list. */
function each(file: string, list: List, run: (each: Case) => void): void {
  READ.add(`${file}.${list}`);
  for (const found of FILES.get(file)?.[list] ?? []) {
    test(`${file} ${list}: ${found.name}`, () => run(found));
  }
}

function raw(found: Case): Buffer {
  return found.hex === undefined ? Buffer.from(found.text ?? "") : hex(found.hex);
}

function refuses(serde: Serde<never> | Serde<unknown>, data: Buffer): SerdeError {
  try {
    serde.decode(data);
  } catch (error) {
    assert.ok(error instanceof SerdeError, String(error));
    return error;
  }
  assert.fail("it was decoded");
}

function same<T>(serde: Serde<T>, value: T, data: Buffer): void {
  assert.deepEqual(Buffer.from(serde.encode(value)), data);
  assert.deepEqual(serde.decode(data), value);
}

each("str", "valid", (found) => same(str(), String(found.value), raw(found)));
each("str", "invalid", (found) => refuses(str(), raw(found)));
each("bytes", "valid", (found) => same(bytes(), raw(found), raw(found)));

each("int", "valid", (found) => {
  const value = BigInt(String(found.value));
  same(bigint(), value, raw(found));
  if (Number.isSafeInteger(Number(value))) {
    same(int(), Number(value), raw(found));
  } else {
    assert.match(refuses(int(), raw(found)).message, new RegExp(`${value} is past 2\\^53-1`));
    assert.throws(() => int().encode(Number(value)), SerdeError);
  }
});
each("int", "invalid", (found) => {
  refuses(int(), raw(found));
  refuses(bigint(), raw(found));
});
each("int", "refused", ({ value }) => {
  const refused = { name: "SerdeError", message: /does not fit a Long/ };
  assert.throws(() => bigint().encode(BigInt(String(value))), refused);
  assert.throws(() => int().encode(Number(value)), SerdeError);
});

each("float", "valid", (found) => {
  const value = float().decode(raw(found));
  assert.deepEqual(Buffer.from(float().encode(value)), raw(found));
  assert.ok(Object.is(value, Number(found.value)), String(value));
});
each("float", "invalid", (found) => refuses(float(), raw(found)));

each("json", "valid", (found) => same(json(), found.value, raw(found)));
each("json", "numbers", (found) => {
  const value = Number(found.value);
  const untyped = Buffer.from(found.untyped ?? found.text ?? "");
  assert.deepEqual(json(t.float).encode(value), raw(found));
  assert.equal(json(t.float).decode(raw(found)), value + 0);
  assert.deepEqual(json().encode(value), untyped);
  assert.equal(json().decode(untyped), value + 0);
});
each("json", "reads", (found) => assert.deepEqual(json().decode(raw(found)), found.value));
each("json", "invalid", (found) => refuses(json(), raw(found)));

each("canonical", "valid", (found) => same(canonical(), found.value, raw(found)));
each("canonical", "numbers", (found) => {
  for (const serde of [canonical<number>(), canonical(t.float)]) {
    same(serde, Number(found.value) + 0, raw(found));
    assert.deepEqual(serde.encode(Number(found.value)), raw(found));
  }
});
each("canonical", "invalid", (found) => refuses(canonical(), raw(found)));
each("canonical", "refused", ({ value }) => {
  const refused = { name: "SerdeError", message: /past 2\^53-1/ };
  const text = String(value);
  assert.throws(() => canonical().encode(Number(text)), refused);
  if (!text.includes("e")) {
    assert.throws(() => canonical().encode(BigInt(text)), refused);
    assert.throws(() => canonical(t.bigint).encode(BigInt(text)), refused);
  }
});

const SINGLE = new Map<string, t.Shape<unknown>>(
  Object.entries({
    str: t.str,
    int: t.int,
    float: t.float,
    bool: t.bool,
    datetime: t.datetime,
    date: t.date,
    uuid: t.uuid,
  }) as [string, t.Shape<unknown>][],
);

/** Read the type of a field as the vectors have it. */
function shape(text: string, leg: t.Shape<unknown> | undefined): t.Shape<unknown> {
  if (text.endsWith(" or null")) {
    return t.nullable(shape(text.slice(0, -" or null".length), leg));
  }
  const [, word, item] = /^(list|map|set) of (.*)$/.exec(text) ?? [];
  if (word !== undefined && item !== undefined) {
    const make = { list: t.list, map: t.map, set: t.set }[word as "list" | "map" | "set"];
    return make(shape(item, leg)) as t.Shape<unknown>;
  }
  const found = text === "leg" ? leg : SINGLE.get(text);
  assert.ok(found !== undefined, text);
  return found;
}

function objectOf(fields: readonly FieldCase[], leg?: t.Shape<unknown>): t.Shape<unknown> {
  const made = fields.map((field) => {
    const of = shape(field.type, leg);
    return [field.name, "default" in field ? t.or(of, field.default) : of] as const;
  });
  return t.object(Object.fromEntries(made));
}

/** Values of what JSON has no form for are given as JSON. */
function value(fields: readonly FieldCase[], given: Members): Members {
  const made = fields.map(({ name, type }) => {
    const found = given[name];
    if (type === "datetime") {
      return [name, Moment.parse(String(found))];
    }
    if (type === "uuid") {
      return [name, String(found).toLowerCase()];
    }
    return [name, type.startsWith("set of ") ? new Set(found as unknown[]) : found];
  });
  return Object.fromEntries(made) as Members;
}

for (const found of FILES.get("types")?.types ?? []) {
  const leg = found.leg && objectOf(found.leg);
  const typed = json(objectOf(found.fields, leg));
  const strict = canonical(objectOf(found.fields, leg));
  test(`types, ${found.name}: valid`, () => {
    for (const { value: given, text, canonical } of found.valid) {
      same(typed, value(found.fields, given), Buffer.from(text));
      same(strict, value(found.fields, given), Buffer.from(canonical));
    }
  });
  test(`types, ${found.name}: reads`, () => {
    for (const { value: due, text } of found.reads) {
      assert.deepEqual(typed.decode(Buffer.from(text)), value(found.fields, due));
      refuses(strict, Buffer.from(text));
    }
  });
  for (const { text, field } of found.invalid) {
    test(`types, ${found.name}: refused: ${text}`, () => {
      const where = field === "" ? "the JSON " : `field '${field}' `;
      const error = refuses(typed, Buffer.from(text));
      assert.ok(error.message.startsWith(where), error.message);
      refuses(strict, Buffer.from(text));
    });
  }
}

test("every list of every file has a test", () => {
  const lists = [...FILES].flatMap(([name, file]) =>
    Object.keys(file)
      .filter((list) => list !== "serde" && list !== "types")
      .map((list) => `${name}.${list}`),
  );
  assert.deepEqual(lists.sort(), [...READ].sort());
  assert.deepEqual(
    [...FILES.keys()].filter((name) => FILES.get(name)?.types),
    ["types"],
  );
});
