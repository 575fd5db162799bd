/** Count words: topic `words` in, table `counts` kept, topic `word-counts` out. */
import { int, str, Worker } from "pillion";

const worker = new Worker({ group: "words", stateDir: "state" });
const words = worker.topic("words", { key: str(), value: str() });
const counts = worker.table("counts", { key: str(), value: int(), default: () => 0 });
const changes = worker.output("word-counts", { key: str(), value: int() });

worker.process(words, { tables: [counts] }, (batch, ctx) => {
  const rows = ctx.table(counts);
  for (const line of batch.values) {
    for (const word of line?.match(/\S+/g) ?? []) {
      const count = rows.get(word) + 1;
      rows.set(word, count);
      ctx.send(changes, { key: word, value: count });
    }
  }
});

await worker.run();
