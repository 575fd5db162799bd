/** Validators of other libraries in json() and canonical(). */

import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import Type, { type Static, type TSchema } from "typebox";
import { Value } from "typebox/value";
import * as v from "valibot";
import { z } from "zod";
import { UsageError } from "../../src/errors.js";
import {
  canonical,
  json,
  type Serde,
  SerdeError,
  type StandardSchema,
  serdeOf,
} from "../../src/serdes/index.js";

interface Flight {
  tail: string;
  legs: { to: string; minutes: number }[];
}

function byTypebox<T extends TSchema>(schema: T): StandardSchema<Static<T>> {
  return {
    "~standard": {
      version: 1,
      vendor: "typebox",
      validate: (value) =>
        Value.Check(schema, value)
          ? { value: value as Static<T> }
          : { issues: Value.Errors(schema, value) },
    },
  };
}

const zod: Serde<Flight> = json(
  z.object({
    tail: z.string(),
    legs: z.array(z.object({ to: z.string(), minutes: z.number().int() })),
  }),
);
const valibot: Serde<Flight> = json(
  v.object({
    tail: v.string(),
    legs: v.array(v.object({ to: v.string(), minutes: v.pipe(v.number(), v.integer()) })),
  }),
);
const typebox: Serde<Flight> = json(
  byTypebox(
    Type.Object({
      tail: Type.String(),
      legs: Type.Array(Type.Object({ to: Type.String(), minutes: Type.Integer() })),
    }),
  ),
);

function refused(run: () => unknown, sentence: RegExp): void {
  assert.throws(run, (error) => {
    assert.ok(error instanceof SerdeError, String(error));
    assert.match(error.message, sentence);
    return true;
  });
}

for (const [vendor, serde] of Object.entries({ zod, valibot, typebox })) {
  const flight: Flight = { tail: "N1", legs: [{ to: "SFO", minutes: 90 }] };
  const text = '{"tail":"N1","legs":[{"to":"SFO","minutes":90}]}';

  test(`${vendor}: what is valid goes both ways`, () => {
    assert.equal(Buffer.from(serde.encode(flight)).toString(), text);
    assert.deepEqual(serde.decode(Buffer.from(text)), flight);
    assert.equal(serde.name, `${vendor} schema`);
    assert.equal(serde.mutable, true);
  });

  test(`${vendor}: what is not valid is refused, with its place`, () => {
    const bad = text.replace("90", '"90"');
    const says = new RegExp(
      `^field 'legs\\[0\\]\\.minutes' is refused by the ${vendor} schema: .+`,
    );
    if (vendor === "typebox") {
      refused(() => serde.decode(Buffer.from(bad)), /is refused by the typebox schema: .+/);
    } else {
      refused(() => serde.decode(Buffer.from(bad)), says);
      refused(() => serde.encode({ ...flight, legs: [{ to: "SFO", minutes: 1.5 }] }), says);
    }
    refused(() => serde.encode(undefined as unknown as Flight), /^the value must be what JSON has/);
    refused(() => serde.decode(Buffer.from("{")), /is no JSON/);
  });

  test(`${vendor}: the order of fields is the program's`, () => {
    const { tail, legs } = flight;
    const data = Buffer.from(serde.encode({ legs, tail }));
    assert.equal(data.toString(), '{"legs":[{"to":"SFO","minutes":90}],"tail":"N1"}');
    assert.deepEqual(serde.decode(data), flight);
  });
}

test("what would be read back as another value is not written", () => {
  const says = /^the value would be read back as another one: the zod schema drops, adds or chan/;
  const trimmed = json(z.object({ tail: z.string().trim() }));
  assert.deepEqual(trimmed.decode(Buffer.from('{"tail":" N1 "}')), { tail: "N1" });
  refused(() => trimmed.encode({ tail: " N1 " }), says);
  refused(() => trimmed.encode({ tail: "N1", more: 1 } as { tail: string }), says);
  assert.equal(trimmed.encode({ tail: "N1" }).toString(), '{"tail":"N1"}');
});

test("a validator may make another type of what is read", () => {
  const moment: Serde<Date> = json(z.string().transform((text) => new Date(text)));
  assert.deepEqual(moment.decode(Buffer.from('"1970-01-01T00:00:00Z"')), new Date(0));
  refused(() => moment.encode(new Date(0)), /must be a plain object, not Date/);
});

test("members that are undefined are not there, and may be left out", () => {
  const serde = json(v.object({ a: v.exactOptional(v.number()), b: v.number() }));
  const given = { a: undefined, b: 1 } as unknown as { b: number };
  assert.equal(serde.encode(given).toString(), '{"b":1}');
});

test("keys are canonical", () => {
  const key = canonical(z.object({ b: z.number(), a: z.number() }));
  assert.equal(key.encode({ b: 1, a: 2 }).toString(), '{"a":2,"b":1}');
  refused(() => key.decode(Buffer.from('{"b":1,"a":2}')), /is no canonical JSON/);
});

test("what validates asynchronously is a mistake of the program", () => {
  const serde = json(z.string().refine(async (text) => text !== ""));
  const says = /^the zod schema validates asynchronously/;
  const usage = { constructor: UsageError, message: says };
  assert.throws(() => serde.decode(Buffer.from('"a"')), usage);
  assert.throws(() => serde.encode("a"), usage);
});

test("a schema is not a serde", () => {
  const schema = z.string() as unknown as Serde<string>;
  assert.throws(
    () => serdeOf(schema, false, "the value of topic 'a'"),
    /a schema is not a serde yet: write value: json\(\.\.\.\) around it/,
  );
});

test("so is what gives a promise of another realm, as test frameworks have them", () => {
  const validate = () => runInNewContext("Promise.resolve({ value: 'v' })") as Promise<never>;
  const serde = json<string>({ "~standard": { version: 1, vendor: "mine", validate } });
  assert.throws(() => serde.decode(Buffer.from('"v"')), /the mine schema validates asynchronously/);
});
