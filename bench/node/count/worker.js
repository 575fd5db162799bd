/**
 * Count records by key in a table in memory, as anyone would write it.
 *
 * worker.js SOURCE TABLE, as the child of `pillion run`, which says which group it is.
 */

import { bytes, int, MemoryStores, str, Worker } from "pillion";

const [source, table] = process.argv.slice(2);

const worker = new Worker({ group: "count", stores: new MemoryStores(), commitIntervalMs: 100 });
const records = worker.topic(source, { key: str(), value: bytes() });
const counts = worker.table(table, { key: str(), value: int(), default: () => 0 });

worker.process(records, { tables: [counts] }, (batch, ctx) => {
  const rows = ctx.table(counts);
  for (const key of batch.keys) {
    if (key !== null) {
      rows.set(key, rows.get(key) + 1);
    }
  }
});

await worker.run();
