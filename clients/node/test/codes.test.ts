/** The generated constants are those of the specification. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as codes from "../src/codes.js";
import { SPEC } from "./spec.js";

interface Named {
  readonly meaning: string;
}
interface Codes {
  readonly subprotocol: string;
  readonly messages: readonly (Named & { type: string })[];
  readonly frame_kinds: readonly (Named & { kind: number })[];
  readonly frame_flags: readonly (Named & { bit: number })[];
  readonly error_codes: readonly (Named & { code: string; retriable: boolean })[];
  readonly close_codes: readonly (Named & { code: number; reconnect: boolean })[];
  readonly http_refusals: readonly (Named & { status: number; reconnect: boolean })[];
}

const SOURCE = JSON.parse(readFileSync(join(SPEC, "codes.json"), "utf8")) as Codes;

test("no constant is missing, and none is left over", () => {
  assert.equal(codes.SUBPROTOCOL, SOURCE.subprotocol);
  assert.deepEqual(
    Object.values(codes.MessageType),
    SOURCE.messages.map(({ type }) => type),
  );
  assert.deepEqual(
    Object.values(codes.FrameKind),
    SOURCE.frame_kinds.map(({ kind }) => kind),
  );
  assert.deepEqual(
    Object.values(codes.FrameFlag),
    SOURCE.frame_flags.map(({ bit }) => bit),
  );
  assert.deepEqual(
    Object.values(codes.Code),
    SOURCE.error_codes.map(({ code }) => code),
  );
  assert.deepEqual(
    Object.values(codes.CloseCode),
    SOURCE.close_codes.map(({ code }) => code),
  );
  assert.deepEqual(
    Object.values(codes.HttpRefusal),
    SOURCE.http_refusals.map(({ status }) => status),
  );
});

test("what is retriable, and after what a worker stays away", () => {
  const retriable = SOURCE.error_codes.filter((each) => each.retriable).map(({ code }) => code);
  assert.deepEqual([...codes.RETRIABLE], retriable);
  const closes = SOURCE.close_codes.filter((each) => !each.reconnect).map(({ code }) => code);
  assert.deepEqual([...codes.NO_RECONNECT], closes);
  const statuses = SOURCE.http_refusals
    .filter((each) => !each.reconnect)
    .map(({ status }) => status);
  assert.deepEqual([...codes.NO_RECONNECT_HTTP], statuses);
});

test("every code has its meaning", () => {
  assert.deepEqual(
    [...codes.CODE_MEANINGS],
    SOURCE.error_codes.map((each) => [each.code, each.meaning]),
  );
  assert.deepEqual(
    [...codes.CLOSE_MEANINGS],
    SOURCE.close_codes.map((each) => [each.code, each.meaning]),
  );
  assert.deepEqual(
    [...codes.HTTP_MEANINGS],
    SOURCE.http_refusals.map((each) => [each.status, each.meaning]),
  );
});
