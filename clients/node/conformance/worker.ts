/** The conformance job of spec/scenarios/README.md, written with Worker. */

import { join } from "node:path";
import {
  bytes,
  type Context,
  type GlobalTable,
  type SourceTable,
  SqliteStores,
  type Table,
  Worker,
} from "../src/index.js";
import { hold } from "./hold.js";

type Bytes = Uint8Array | null;
type AnyTable =
  | Table<Uint8Array, Uint8Array, never>
  | SourceTable<Uint8Array, Uint8Array>
  | GlobalTable<Uint8Array, Uint8Array>;
type OnWord = (key: Bytes, value: Bytes, ctx: Context) => Promise<void>;

const RAW = { key: bytes(), value: bytes() };

export interface JobOptions {
  readonly job: "stateless" | "tables";
  /** The case's own. */
  readonly directory: string;
  /** Take whole batches, not records one by one. */
  readonly batches?: boolean;
}

/** Declare the job. */
export function jobWorker({ job, directory, batches = false }: JobOptions): Worker {
  const stores = new SqliteStores(join(directory, "stores"));
  const worker = new Worker({
    group: "conformance",
    stores,
    // With a time a commit may begin between two records of a frame, which cases count on not to.
    commitIntervalMs: batches ? 2 : 0,
    connectTimeoutMs: 60_000,
  });
  const words = worker.topic("words", RAW);
  const [tables, onWord] = job === "tables" ? counting(worker) : copying(worker);
  const call: OnWord = async (key, value, ctx) => {
    await hold(value, directory);
    await onWord(key, value, ctx);
  };
  if (batches) {
    worker.process(words, { tables }, async (batch, ctx) => {
      for (const [key, value] of batch.items()) {
        await call(key, value, ctx);
      }
    });
  } else {
    worker.each(words, { tables }, ({ key, value }, ctx) => call(key, value, ctx));
  }
  return worker;
}

/** Records in, the same records out. */
function copying(worker: Worker): [AnyTable[], OnWord] {
  const changes = worker.output("changes", RAW);
  return [[], async (key, value, ctx) => ctx.send(changes, { key, value })];
}

/** Count, and say what each record has changed. */
function counting(worker: Worker): [AnyTable[], OnWord] {
  const changes = worker.output("changes", RAW);
  const counts = worker.table("counts", { ...RAW, default: () => Buffer.from("0") });
  const names = worker.sourceTable("names", RAW);
  const places = worker.globalTable("places", RAW);
  const onWord: OnWord = async (key, value, ctx) => {
    const rows = ctx.table(counts);
    if (key === null) {
      return;
    }
    if (value === null) {
      rows.delete(key);
      ctx.send(changes, { key });
      return;
    }
    const number = Buffer.from(String(Number(Buffer.from(rows.get(key)).toString()) + 1));
    rows.set(key, number);
    const words = [number, ctx.table(names).get(key), ctx.table(places).get(key)];
    const parts = words.flatMap((each) => (each === undefined ? [] : [Buffer.from(" "), each]));
    ctx.send(changes, { key, value: Buffer.concat(parts.slice(1)) });
  };
  return [[counts, names, places], onWord];
}
