/** A worker that counts words, and what a test needs of it. */

import { type Batch, type Context, int, str, Worker } from "../../src/index.js";

/** Call something with each line before it is counted. */
export function words(before: (line: string) => void = () => {}) {
  const worker = new Worker({ group: "words" });
  const lines = worker.topic("lines", { key: str(), value: str() });
  const counts = worker.table("counts", { key: str(), value: int(), default: () => 0 });
  const changes = worker.output("changes", { key: str(), value: int() });
  /** The values of each batch. */
  const seen: (string | null)[][] = [];
  function count(batch: Batch<string, string>, ctx: Context): void {
    seen.push([...batch.values]);
    const rows = ctx.table(counts);
    for (const line of batch.values) {
      before(line ?? "");
      for (const word of (line ?? "").split(" ").filter(Boolean)) {
        rows.set(word, rows.get(word) + 1);
        ctx.send(changes, { key: word, value: rows.get(word) });
      }
    }
  }
  worker.process(lines, { tables: [counts] }, count);
  return { worker, lines, counts, changes, seen };
}

/** A worker of one topic and one output, both of text. */
export function copier(group = "g") {
  const worker = new Worker({ group });
  const lines = worker.topic("lines", { key: str(), value: str() });
  const copies = worker.output("copies", { key: str(), value: str() });
  return { worker, lines, copies };
}
