/**
 * What a program need not say, because it follows from its declarations, and what must not compile.
 * tsc checks it; nothing of it runs.
 */

import * as v from "valibot";
import { z } from "zod";
import type { Header } from "../src/headers.js";
import {
  bigint,
  bytes,
  canonical,
  float,
  int,
  json,
  type Serde,
  str,
  t,
} from "../src/serdes/index.js";
import { Declarations } from "../src/worker/declarations.js";
import type { GlobalTable, Output, SourceTable, Table, Topic } from "../src/worker/declared.js";
import { deadLetter, type Failure, skip, stop } from "../src/worker/policy.js";
import type { Batch, KafkaRecord } from "../src/worker/records.js";
import type { ReadonlyTableRows, TableRows } from "../src/worker/table-rows.js";

/** Compiles when the two types are the same. */
type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

function same<A, B>(_same: Same<A, B>): void {}

interface Stats {
  flights: number;
  delays: number[];
}

const worker = new Declarations("g");
const flight = t.object({ tail: t.str, delay: t.nullable(t.int) });
type Flight = t.Of<typeof flight>;

const words = worker.topic("words", { key: str(), value: int() });
const flights = worker.topic("flights", { key: canonical(t.str), value: json(flight) });
const counts = worker.table("counts", { key: str(), value: int(), default: () => 0 });
const stats = worker.table("stats", { key: str(), value: json<Stats>() });
const users = worker.sourceTable("users", { key: bigint(), value: float() });
const places = worker.globalTable("places", { key: bytes(), value: str() });
const out = worker.output("out", { key: str(), value: json(flight) });
const dead = worker.output("dead", { key: bytes(), value: bytes() });

// -- what declarations are

same<typeof words, Topic<string, number>>(true);
same<typeof flights, Topic<string, Flight>>(true);
same<typeof counts, Table<string, number, never>>(true);
same<typeof stats, Table<string, Stats, undefined>>(true);
same<typeof users, SourceTable<bigint, number>>(true);
same<typeof places, GlobalTable<Uint8Array, string>>(true);
same<typeof out, Output<string, Flight>>(true);

const zodFlight = z.object({ tail: z.string(), legs: z.array(z.number()).optional() });
const valibotFlight = v.object({ tail: v.string(), on: v.picklist(["a", "b"]) });
same<
  ReturnType<typeof json<z.infer<typeof zodFlight>>>,
  ReturnType<typeof json<{ tail: string; legs?: number[] | undefined }>>
>(true);
const byZod = worker.topic("zod", { key: canonical(z.string()), value: json(zodFlight) });
const byValibot = worker.output("valibot", { key: str(), value: json(valibotFlight) });
same<typeof byZod, Topic<string, { tail: string; legs?: number[] | undefined }>>(true);
same<typeof byValibot, Output<string, { tail: string; on: "a" | "b" }>>(true);
const made = json(z.string().transform((text) => new Date(text)));
same<typeof made extends Serde<infer T> ? T : never, Date>(true);

// -- what handlers get

worker.process(words, { tables: [counts, stats, users, places] }, (batch, ctx) => {
  same<typeof batch, Batch<string, number>>(true);
  same<(typeof batch.keys)[number], string | null>(true);
  for (const record of batch) {
    same<typeof record, KafkaRecord<string, number>>(true);
    same<typeof record.key, string | null>(true);
    same<typeof record.value, number | null>(true);
    same<typeof record.headers, readonly Header[]>(true);
    same<typeof record.timestamp, number | undefined>(true);
  }
  for (const [key, value] of batch.items()) {
    same<typeof key, string | null>(true);
    same<typeof value, number | null>(true);
  }

  const kept = ctx.table(counts);
  same<typeof kept, TableRows<string, number, never>>(true);
  const count = kept.get("a");
  same<typeof count, number>(true);
  kept.set("a", count + 1).set("b", 2);
  same<ReturnType<typeof kept.delete>, boolean>(true);
  const copy = new Map(kept);
  same<typeof copy, Map<string, number>>(true);

  const found = ctx.table(stats).get("a");
  same<typeof found, Stats | undefined>(true);
  const read = ctx.table(users);
  same<typeof read, ReadonlyTableRows<bigint, number>>(true);
  const user = read.get(5n);
  same<typeof user, number | undefined>(true);
  const place = ctx.table(places).get(Buffer.from("SFO"));
  same<typeof place, string | undefined>(true);
  same<typeof ctx.signal, AbortSignal>(true);

  ctx.send(out, { key: "a", value: { tail: "N1", delay: null }, headers: [["h", null]] });
  ctx.send(out, { key: null, timestamp: 5 });
  ctx.send(byValibot, { value: { tail: "N1", on: "a" } });

  // @ts-expect-error: a key of another type
  kept.get(1);
  // @ts-expect-error: a record's key may be null, and no row has it as key
  kept.get(batch.keys[0] ?? null);
  // @ts-expect-error: a value of another type
  kept.set("a", "1");
  // @ts-expect-error: null is no value
  kept.set("a", null);
  // @ts-expect-error: without a default there may be none
  ctx.table(stats).get("a").flights += 1;
  // @ts-expect-error: a read-only table
  read.set(5n, 1);
  // @ts-expect-error: a read-only table
  ctx.table(places).delete(Buffer.from("SFO"));
  // @ts-expect-error: an output is no table
  ctx.table(out);
  // @ts-expect-error: nor is its name
  ctx.table("counts");
  // @ts-expect-error: a topic is no output
  ctx.send(words, { key: "a", value: 1 });
  // @ts-expect-error: a key of another type
  ctx.send(out, { key: 1 });
  // @ts-expect-error: a field is missing
  ctx.send(out, { value: { tail: "N1" } });
  // @ts-expect-error: no such word
  ctx.send(byValibot, { value: { tail: "N1", on: "c" } });
  // @ts-expect-error: header values are bytes
  ctx.send(out, { headers: [["h", "text"]] });
  // @ts-expect-error: columns are read
  batch.keys[0] = "a";
});

worker.each(flights, async (record, ctx) => {
  same<typeof record, KafkaRecord<string, Flight>>(true);
  if (record.value !== null) {
    const { tail, delay } = record.value;
    same<typeof tail, string>(true);
    same<typeof delay, number | null>(true);
  }
  same<typeof ctx.partition, number>(true);
  // @ts-expect-error: records are read
  record.offset = 1;
});

worker.process(words, () => undefined); // arguments may be left out, and options
worker.every({ minutes: 5, tables: [counts], topic: words }, (ctx) => ctx.table(counts).clear());
worker.every({ seconds: 1 }, async () => undefined);
worker.join(words, flights);

// -- policies

worker.each(words, { onError: skip() }, () => undefined);
worker.each(words, { onError: deadLetter(dead) }, () => undefined);
worker.each(
  words,
  {
    onError: (failure) => {
      same<typeof failure, Failure>(true);
      return failure.decoding ? skip() : stop();
    },
  },
  () => undefined,
);
// @ts-expect-error: dead letters are written as they came
deadLetter(out);
// @ts-expect-error: a policy, not what makes one
worker.each(words, { onError: deadLetter }, () => undefined);
// @ts-expect-error: nor its name
worker.each(words, { onError: "skip" }, () => undefined);
// @ts-expect-error: nor one that comes later
worker.each(words, { onError: async () => skip() }, () => undefined);

// -- mistakes in declarations

// @ts-expect-error: a serde is what str() gives
worker.topic("a", { key: str, value: str() });
// @ts-expect-error: a shape is not a serde yet
worker.topic("a", { key: str(), value: flight });
// @ts-expect-error: nor is a schema
worker.topic("a", { key: str(), value: zodFlight });
// @ts-expect-error: a value is missing
worker.topic("a", { key: str() });
// @ts-expect-error: a default of another type
worker.table("a", { key: str(), value: int(), default: () => "0" });
// @ts-expect-error: a default is made each time
worker.table("a", { key: str(), value: json<number[]>(), default: [] });
// @ts-expect-error: tables are an array
worker.process(words, { tables: counts }, () => undefined);
// @ts-expect-error: of tables
worker.process(words, { tables: [out] }, () => undefined);
// @ts-expect-error: a handler takes two arguments
worker.process(words, (_batch, _ctx, _more) => undefined);
// @ts-expect-error: an output has no records
worker.process(out, () => undefined);
// @ts-expect-error: a handler of records gets no batch
worker.each(words, (batch) => batch.keys);
// @ts-expect-error: no such unit of time
worker.every({ days: 1 }, () => undefined);
