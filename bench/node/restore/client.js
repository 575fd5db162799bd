/**
 * Restore a changelog into Maps: a worker over the protocol-level client. Each task has a Map of its
 * own. As bench/restore/worker.py.
 *
 * client.js SOURCE CHANGELOG PARTITIONS FIGURES, as the child of `pillion run`.
 */

import { connect, run } from "pillion/client";
import { Window } from "./figures.js";

const [source, changelog, partitions, figures] = process.argv.slice(2);

/** @param {import("pillion/client").Connection} conn */
async function restore(conn) {
  /** @type {Map<string, Map<string, Buffer>>} */
  const tables = new Map();
  let window;
  let records = 0;
  let whole = 0;
  for await (const event of conn) {
    switch (event.type) {
      case "restore":
        event.batch.applyTo(tables.get(event.task.name));
        records += event.batch.length;
        break;
      case "assigned":
        window ??= new Window(process.ppid);
        tables.set(event.task.name, new Map());
        conn.opened(event.task, { table: null });
        break;
      case "restored":
        whole += 1;
        if (whole === Number(partitions)) {
          window.close();
          window.write(figures, tables.values(), records);
          return;
        }
        break;
      case "lost":
        throw new Error(`${event.task.name} was lost (${event.code}): ${event.message}`);
      default:
    }
  }
}

await run(async (signal) => {
  const tables = [{ name: "table", changelog }];
  const conn = await connect({ sets: [{ name: "bench", sources: [source], tables }], signal });
  try {
    await restore(conn);
  } finally {
    await conn.close();
  }
});
