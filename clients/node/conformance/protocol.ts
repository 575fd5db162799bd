/** The conformance job of spec/scenarios/README.md, with the public API of the protocol-level client. */

import { join } from "node:path";
import { type Batch, type Connection, type ConnectOptions, Tables } from "../src/client.js";
import { SqliteStores } from "../src/stores/index.js";
import { hold } from "./hold.js";

/** What the job is told; in a process its environment does. */
export interface Told {
  readonly job: "stateless" | "tables";
  /** The case's own. */
  readonly directory: string;
  /** Aborts when the worker is to end. */
  readonly signal: AbortSignal;
  readonly connect: (options: ConnectOptions) => Promise<Connection>;
}

type Change = readonly [key: Buffer | null, value: Buffer | null];

/** Work until the signal aborts or the connection ends. */
export async function work({ job, directory, signal, connect }: Told): Promise<void> {
  const counting = job === "tables";
  const own = [{ name: "counts" }, { name: "names", sourceTopic: "names" }];
  await using conn = await connect({
    group: "conformance",
    sets: [{ name: "words", sources: ["words"], tables: counting ? own : [] }],
    globals: counting ? [{ name: "places", topic: "places" }] : [],
    outputs: ["changes"],
    signal,
  });
  using tables = new Tables(conn, new SqliteStores(join(directory, "stores")));

  /** Handle one batch and commit it. */
  const handle = async (batch: Batch): Promise<void> => {
    const changes: Change[] = [];
    for (const { key, value } of batch) {
      await hold(value, directory);
      if (batch.stale) {
        return; // the epoch is over: its tables are closed
      }
      if (!counting) {
        changes.push([key, value]);
      } else if (key !== null) {
        changes.push([key, count(tables, batch, key.toString("latin1"), value)]);
      }
    }
    await tables.commit(batch, { outputs: { changes } });
  };
  for await (const event of tables) {
    if (event.type === "records") {
      await handle(event.batch);
    }
  }
}

/** Count one record and say what it changed. */
function count(tables: Tables, of: Batch, key: string, value: Buffer | null): Buffer | null {
  const mine = tables.of(of);
  const counts = mine.get("counts");
  if (value === null) {
    counts?.write(key, null);
    return null;
  }
  const number = Buffer.from(String(Number(counts?.find(key) ?? 0) + 1));
  counts?.write(key, number);
  const words = [number, mine.get("names")?.find(key) ?? null, tables.lookup("places", key)];
  const parts = words.flatMap((each) => (each === null ? [] : [Buffer.from(" "), each]));
  return Buffer.concat(parts.slice(1));
}
