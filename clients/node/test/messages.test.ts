/** Every message vector of the specification. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { MessageType } from "../src/codes.js";
import { decode, encode } from "../src/control.js";
import { MessageError } from "../src/errors.js";
import { MESSAGES } from "../src/messages.js";
import { hex, load } from "./spec.js";

interface Valid {
  readonly name: string;
  readonly text: string;
  readonly decoded: unknown;
}
interface Invalid {
  readonly name: string;
  readonly text?: string;
  readonly hex?: string;
  readonly code: string;
  readonly re: number;
}

const FILES = load<{ valid: Valid[]; invalid: Invalid[] }>("vectors", "messages");

/** An optional field that is absent equals one that is empty. */
function withoutEmpty(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(withoutEmpty);
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  const members = Object.entries(value).map(([name, each]) => [name, withoutEmpty(each)] as const);
  return Object.fromEntries(members.filter(([, each]) => !isEmpty(each)));
}

function isEmpty(value: unknown): boolean {
  const plain = value === null || value === "" || value === 0;
  return plain || (typeof value === "object" && Object.keys(value).length === 0);
}

test("every message type has vectors, and every file of vectors a type", () => {
  const types = Object.values(MessageType);
  assert.deepEqual([...FILES.keys()].sort(), [...types, "any"].sort());
  assert.deepEqual(Object.keys(MESSAGES).sort(), [...types].sort());
});

for (const [type, { valid, invalid }] of FILES) {
  for (const { name, text, decoded } of valid) {
    test(`${type}: ${name}`, () => {
      const message = decode(text);
      if (decoded === null) {
        assert.equal(message, undefined);
        return;
      }
      assert.ok(message !== undefined);
      assert.equal(message.type, type);
      const again = encode(message);
      assert.deepEqual(decode(again), message);
      assert.deepEqual(decode(Buffer.from(text)), message);
      assert.deepEqual(withoutEmpty(JSON.parse(again)), withoutEmpty(decoded));
    });
  }
  for (const each of invalid) {
    test(`${type} refused: ${each.name}`, () => {
      const given = each.hex === undefined ? (each.text ?? "") : hex(each.hex);
      assert.throws(
        () => decode(given),
        (error) => {
          assert.ok(error instanceof MessageError, String(error));
          assert.deepEqual([error.code, error.re], [each.code, each.re]);
          assert.equal(error.fatal, each.code === "bad_message" && each.re === 0);
          return true;
        },
      );
    });
  }
}
