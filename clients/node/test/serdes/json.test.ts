/** What the vectors do not say: words of errors, what is refused, bigints, moments. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageError } from "../../src/errors.js";
import {
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
  type ValueOf,
} from "../../src/serdes/index.js";
import { Random } from "../random.js";

function refused(run: () => unknown, sentence: RegExp): void {
  assert.throws(run, (error) => {
    assert.ok(error instanceof SerdeError, String(error));
    assert.match(error.message, sentence);
    assert.match(error.message, / \(serde\)$/);
    return true;
  });
}

function encoded<T>(serde: Serde<T>, value: T): string {
  return Buffer.from(serde.encode(value)).toString();
}

function decoded<T>(serde: Serde<T>, text: string): T {
  return serde.decode(Buffer.from(text));
}

const flight = t.object({
  tail: t.str,
  delay: t.or(t.nullable(t.int), null),
  legs: t.or(t.list(t.object({ to: t.str })), () => []),
});

test("what would come back as something else is not written", () => {
  class Mine {
    a = 1;
  }
  const cases: [unknown, RegExp][] = [
    [new Date(0), /^the value must be a plain object, not Date/],
    [{ a: [new Mine()] }, /^field 'a\[0\]' must be a plain object, not Mine/],
    [[new Map()], /^field '\[0\]' must be a plain object, not Map/],
    [Buffer.of(1), /not Buffer/],
    [{ a: Number.NaN }, /^field 'a' is NaN, which JSON does not have/],
    [-Infinity, /is -Infinity/],
    [[undefined], /^field '\[0\]' must be what JSON has, not undefined/],
    [() => 1, /not function/],
    [5n, /is a bigint up to 2\^53-1, which comes back as a number/],
    [2 ** 53, /is a number past 2\^53-1, which comes back as a bigint/],
    ["\ud800", /has a lone surrogate/],
    [{ "\udc00": 1 }, /has a lone surrogate/],
  ];
  for (const [value, sentence] of cases) {
    refused(() => json().encode(value), sentence);
    assert.throws(() => canonical().encode(value), SerdeError);
  }
});

test("members that are undefined are not there", () => {
  assert.equal(encoded(json(), { a: undefined, b: 1, c: undefined }), '{"b":1}');
});

test("whole numbers past 2^53-1 are bigints, and keep their digits", () => {
  for (const digits of ["9007199254740992", "-9007199254740993", "1".repeat(500)]) {
    const found = decoded(json(), `[${digits}]`);
    assert.deepEqual(found, [BigInt(digits)]);
    assert.equal(encoded(json(), found), `[${digits}]`);
    assert.equal(decoded(json(t.bigint), digits), BigInt(digits));
    assert.equal(encoded(json(t.bigint), BigInt(digits)), digits);
    refused(() => decoded(json(t.int), digits), /^the JSON is past 2\^53-1.*t\.bigint/);
  }
  assert.equal(decoded(json(t.bigint), "5"), 5n);
  refused(() => decoded(json(t.bigint), "5.0"), /must be bigint, not number/);
});

test("a name such as __proto__ is a member like any other", () => {
  const text = '{"__proto__":{"a":1.5},"b":[1.0]}';
  const found = decoded(json<Record<string, unknown>>(), text);
  assert.deepEqual(Object.keys(found), ["__proto__", "b"]);
  assert.equal(encoded(json(), found), '{"__proto__":{"a":1.5},"b":[1]}');
  assert.equal(
    encoded(json(t.map(t.float)), decoded(json(t.map(t.float)), '{"__proto__":1.5}')),
    '{"__proto__":1.5}',
  );
});

test("too deep is an error of its own", () => {
  const deep = (n: number) => `${"[".repeat(n)}1.5${"]".repeat(n)}`;
  assert.equal(encoded(json(), decoded(json(), deep(500))), deep(500));
  refused(() => decoded(json(), deep(1_000_000)), /nested too deeply/);
  let value: unknown = 1;
  for (let i = 0; i < 1_000_000; i++) {
    value = [value];
  }
  refused(() => json().encode(value), /^the value is nested too deeply/);
});

test("escaped characters are looked for in whatever is large", () => {
  const many = "1,".repeat(500_000);
  assert.equal((decoded(json(), `[${many}"\\ud83d\\ude00"]`) as unknown[]).at(-1), "😀");
  refused(() => decoded(json(), `[${many}{"\\ud83d":[1.5]}]`), /^the JSON has a lone surrogate/);
});

test("an object with a type", () => {
  const serde = json(flight);
  const value: ValueOf<typeof serde> = { tail: "N1", delay: null, legs: [{ to: "SFO" }] };
  assert.equal(encoded(serde, value), '{"tail":"N1","delay":null,"legs":[{"to":"SFO"}]}');
  assert.deepEqual(decoded(serde, '{"tail":"N1","x":{}}'), { tail: "N1", delay: null, legs: [] });
  assert.notEqual(decoded(serde, '{"tail":"N1"}').legs, decoded(serde, '{"tail":"N1"}').legs);
  const wrong = (given: object) => () => serde.encode(given as typeof value);
  refused(wrong({ tail: "N1", delay: null }), /^field 'legs' is missing/);
  refused(wrong({ ...value, more: 1 }), /^field 'more' is a field that the type does not have/);
  refused(wrong({ ...value, delay: 1.5 }), /^field 'delay' must be int or null, not 1.5/);
  refused(wrong({ ...value, delay: "1" }), /^field 'delay' must be int or null, not string/);
  refused(
    wrong({ ...value, legs: [{ to: null }] }),
    /^field 'legs\[0\]\.to' must be str, not null/,
  );
});

test("fields keep their declared order, canonical ones are sorted", () => {
  const shape = t.object({ b: t.int, a: t.object({ d: t.int, c: t.int }) });
  const value = { a: { c: 1, d: 2 }, b: 3 };
  assert.equal(encoded(json(shape), value), '{"b":3,"a":{"d":2,"c":1}}');
  assert.equal(encoded(canonical(shape), value), '{"a":{"c":1,"d":2},"b":3}');
});

test("sets are sorted by bytes, not by UTF-16", () => {
  assert.equal(encoded(json(t.set(t.str)), new Set(["😀", "\uffee", "a"])), '["a","\uffee","😀"]');
});

test("one of some words", () => {
  const serde = json(t.list(t.oneOf("on", "off")));
  assert.deepEqual(decoded(serde, '["off","on"]'), ["off", "on"]);
  refused(() => decoded(serde, '["up"]'), /^field '\[0\]' must be one of "on", "off"/);
});

test("null at the top is Kafka's own", () => {
  assert.throws(() => json(t.nullable(t.int)), UsageError);
  assert.equal(encoded(json(), null), "null");
});

test("what tables and sentences need to know of a serde", () => {
  const shown = [str(), bytes(), int(), float(), json(), json(t.int), canonical(flight)].map(
    (each) => [each.name, each.mutable],
  );
  assert.deepEqual(shown, [
    ["str", false],
    ["bytes", false],
    ["int", false],
    ["float", false],
    ["json", true],
    ["int", false],
    ["object", true],
  ]);
});

test("scalars refuse other types in words", () => {
  const any = (serde: unknown) => serde as Serde<unknown>;
  refused(() => any(str()).encode(1), /^must be a string, not number/);
  refused(() => str().encode("a\ud800"), /lone surrogate/);
  refused(() => any(int()).encode("1"), /^must be a whole number, not string/);
  refused(() => int().encode(1.5), /^1.5 is no whole number/);
  refused(() => any(float()).encode(1n), /^must be a number, not bigint/);
  refused(() => any(bytes()).encode("a"), /^must be bytes, not string/);
  refused(() => int().decode(Buffer.from("12")), /^'12' is no Long: 2 bytes instead of 8/);
  refused(() => str().decode(Buffer.from("ff00", "hex")), /^hex ff00 is no UTF-8/);
});

test("bytes that were decoded are a copy", () => {
  const data = Buffer.from("abc");
  const found = bytes().decode(data);
  data[0] = 0;
  assert.deepEqual(found, Buffer.from("abc"));
});

test("moments", () => {
  const date = new Date("2026-11-30T16:45:00.250Z");
  assert.equal(Moment.of(date).toString(), "2026-11-30T16:45:00.250000Z");
  assert.deepEqual(Moment.parse("2026-11-30T16:45:00.250999999Z").toDate(), date);
  assert.equal(Moment.parse("1969-12-31T23:59:59.999999Z").micros, -1n);
  assert.equal(new Moment(-1n).toString(), "1969-12-31T23:59:59.999999Z");
  assert.deepEqual(new Moment(-1n).toDate(), new Date(-1));
  assert.equal(Moment.parse("0001-01-01T00:00:00Z").toString(), "0001-01-01T00:00:00Z");
  assert.equal(
    Moment.parse("9999-12-31T23:59:59.999999Z").toString(),
    "9999-12-31T23:59:59.999999Z",
  );
  assert.equal(JSON.stringify({ at: new Moment(0n) }), '{"at":"1970-01-01T00:00:00Z"}');
  const wrong = [
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-00:01",
    "2026-02-29T00:00:00Z",
    "2026-11-30T24:00:00Z",
    "2026-11-30T00:60:00Z",
    "2026-11-30T00:00:60Z",
    "2026-11-30T00:00:00",
    "2026-11-30 00:00:00Z",
    "2026-11-30T00:00:00.Z",
    "2026-11-30T00:00:00.1234567890Z",
    "2026-11-30T00:00:00+24:00",
    "2026-11-30T00:00:00z",
    "",
  ];
  for (const text of wrong) {
    assert.throws(() => Moment.parse(text), RangeError, text);
    assert.throws(() => decoded(json(t.datetime), JSON.stringify(text)), SerdeError);
  }
});

test("random values come back, written as JSON.stringify writes them", () => {
  const random = new Random(7);
  const next = (end: number) => random.below(end);
  const text = () =>
    Array.from({ length: next(6) }, () =>
      String.fromCodePoint(next(2) ? next(0x300) : 0x1f600 + next(50)),
    ).join("");
  const value = (depth: number): unknown => {
    switch (next(depth > 0 ? 7 : 5)) {
      case 0:
        return text();
      case 1:
        return next(2 ** 32) - 2 ** 31;
      case 2:
        return (random.next() - 0.5) * 10 ** (next(30) - 15);
      case 3:
        return next(2) === 0;
      case 4:
        return null;
      case 5:
        return Array.from({ length: next(4) }, () => value(depth - 1));
      default:
        return Object.fromEntries(
          Array.from({ length: next(4) }, () => [text(), value(depth - 1)]),
        );
    }
  };
  for (let i = 0; i < 2000; i++) {
    const given = value(4);
    const written = encoded(json(), given);
    assert.equal(written, JSON.stringify(given));
    assert.deepEqual(decoded(json(), written), given);
    assert.deepEqual(canonical().decode(canonical().encode(given)), given);
  }
});

test("what is no shape is refused where it stands", () => {
  const cases: [string, (type: never) => unknown, unknown][] = [
    [
      "the type of json() must be a shape such as t.int or t.object({ ... }), not Object",
      json,
      { a: t.int },
    ],
    [
      "the type of canonical() must be a shape such as t.int or t.object({ ... }), not Number",
      canonical,
      Number,
    ],
    [
      "field 'a' of t.object() must be a shape such as t.int or t.object({ ... }), not str",
      t.object,
      { a: str },
    ],
    [
      "the item of t.list() must be a shape such as t.int or t.object({ ... }), not undefined",
      t.list,
      undefined,
    ],
  ];
  for (const [sentence, make, type] of cases) {
    assert.throws(
      () => make(type as never),
      (error) => error instanceof UsageError && error.message === `${sentence} (usage)`,
    );
  }
});
