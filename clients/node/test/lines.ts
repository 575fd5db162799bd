/** What the lines of a transcript hold. */

import assert from "node:assert/strict";
import { Batch } from "../src/batch.js";
import type { RowInit } from "../src/commits.js";
import { LocateError, PillionError } from "../src/errors.js";
import { parse } from "../src/frames.js";
import type { Located } from "../src/locate.js";
import type { Task } from "../src/tasks.js";
import { type Raw, raw } from "./spec.js";

// biome-ignore lint/suspicious/noExplicitAny: a line may hold any JSON; assertions say what it is
export type Json = any;

/** Rows of a store, by key as a batch's keyTextAt. */
export function rowsOf(rows: Record<string, Raw>): Map<string, Buffer> {
  return new Map(
    Object.entries(rows).map(([key, value]) => [
      Buffer.from(key).toString("latin1"),
      raw(value) ?? Buffer.of(),
    ]),
  );
}

/** What the frames write to each of these streams. */
export function written<T extends { readonly stream: number }>(
  frames: readonly Json[],
  streams: readonly T[],
  nameOf: (stream: T) => string,
): Map<string, Json[]> {
  const found = new Map<string, Json[]>();
  for (const stream of streams) {
    const mine = frames.filter((frame) => frame.stream === stream.stream);
    if (mine.length > 0) {
      found.set(
        nameOf(stream),
        mine.flatMap(({ records }) => records.map(recordOf)),
      );
    }
  }
  return found;
}

function recordOf({ key, value, headers, timestamp }: Json): Json {
  const made = (headers ?? []).map(([name, each]: [Raw, Raw]) => [
    String(raw(name) ?? ""),
    raw(each),
  ]);
  return { key: raw(key), value: raw(value), headers: made, timestamp };
}

/** What a writes frame says; the bytes may differ, in which columns there are. */
export function meaning(data: Uint8Array): Json {
  const frame = parse(data);
  const { kind, stream, epoch, base, next } = frame;
  const none = { tables: new Map(), sources: new Map(), outputs: new Map() };
  const task: Task = { name: "t", set: "t", partition: 0, role: "active", epoch, ...none };
  const batch = new Batch(frame, task, "t", "t");
  const records = Array.from({ length: batch.length }, (_, i) => [
    batch.keyAt(i),
    batch.valueAt(i),
    batch.timestampAt(i),
    batch.headersAt(i),
  ]);
  return { kind, stream, epoch, base, next, records };
}

/** An optional field that is absent equals one that is empty. */
export function withoutEmpty(value: Json): Json {
  if (Array.isArray(value)) {
    return value.map(withoutEmpty);
  }
  if (typeof value !== "object" || value === null) {
    return value || undefined;
  }
  const members = Object.entries(value).map(([name, each]) => [name, withoutEmpty(each)]);
  const filled = members.filter(([, each]) => each !== undefined && each?.length !== 0);
  return filled.length === 0 ? undefined : Object.fromEntries(filled);
}

/** Records as the rows of tables. */
export function pairsOf(records: ReadonlyMap<string, Json[]>): Map<string, RowInit[]> {
  return new Map(
    [...records].map(([table, all]) => [table, all.map(({ key, value }): RowInit => [key, value])]),
  );
}

/** Bring rows up to date. */
export function put(rows: Map<string, Buffer>, changes: readonly RowInit[]): void {
  for (const [key, value] of changes) {
    const text = Buffer.from(key).toString("latin1");
    if (value === null) {
      rows.delete(text);
    } else {
      rows.set(text, Buffer.from(value));
    }
  }
}

/** The frames and the message of a commit, in lines of one connection and what follows. */
export function partsOf(lines: readonly Json[], id: number): { frames: Json[]; message: Json } {
  const frames: Json[] = [];
  for (const line of lines) {
    if ("connect" in line) {
      break;
    }
    if (line.from !== "worker" || "close" in line) {
      continue;
    }
    if (line.frame?.commit === id && !line.held) {
      frames.push(line.frame);
    }
    if (line.message?.type === "commit" && line.message.id === id) {
      return { frames, message: line.message };
    }
  }
  return { frames, message: undefined };
}

/** Check what the application gets of an answer to locate. */
export function checkLocated(answer: Located | PillionError | undefined, message: Json): void {
  if (message.type === "error") {
    assert.ok(answer instanceof LocateError);
    assert.equal(answer.code, message.code);
    return;
  }
  assert.ok(answer !== undefined && !(answer instanceof PillionError));
  assert.deepEqual([answer.task, answer.stale], [message.task, message.stale]);
  assert.equal(answer.active?.address, message.active?.address);
  const lags = (message.standbys ?? []).map(({ lag }: Json) => (lag < 0 ? null : lag));
  assert.deepEqual(
    lags,
    answer.standbys.map((each) => each.lag),
  );
}

/** Of hello only what the application declares is compared. */
export function checkHello(got: Json, wanted: Json): void {
  const names = "group sets sources tables globals outputs replicas address".split(" ");
  for (const name of names) {
    assert.deepEqual(withoutEmpty(got[name]), withoutEmpty(wanted[name]));
  }
}
