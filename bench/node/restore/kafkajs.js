/**
 * Restore a changelog into Maps with kafkajs, tuned: as fast as its API allows.
 *
 * kafkajs.js BROKERS TOPIC FIGURES
 *
 * The window begins when it has joined its group and has its partitions, which it cannot do without.
 * It fetches one response at a time, so larger ones save waiting, and a little CPU. Values stay views
 * of the responses, which is faster than copies, and takes more memory.
 */

import { kafka } from "../kafkajs.js";
import { Window } from "./figures.js";

const [brokers, topic, figures] = process.argv.slice(2);
const client = kafka(brokers);

const admin = client.admin();
await admin.connect();
const ends = await admin.fetchTopicOffsets(topic);
await admin.disconnect();
const records = ends.reduce((sum, { high }) => sum + Number(high), 0);
/** @type {Map<string, Buffer>[]} */
const tables = ends.map(() => new Map());

const consumer = client.consumer({
  groupId: `bench-restore-${process.pid}-${Date.now()}`,
  maxBytesPerPartition: 4 << 20,
  maxBytes: 16 << 20,
});
let window;
consumer.on(consumer.events.GROUP_JOIN, () => {
  window ??= new Window();
});
await consumer.connect();
await consumer.subscribe({ topics: [topic], fromBeginning: true });
let left = records;
await new Promise((resolve, reject) => {
  consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
  consumer
    .run({
      autoCommit: false,
      eachBatchAutoResolve: true,
      eachBatch: async ({ batch }) => {
        const table = tables[batch.partition];
        for (const { key, value } of batch.messages) {
          if (value === null) {
            table.delete(key.toString("latin1"));
          } else {
            table.set(key.toString("latin1"), value);
          }
        }
        left -= batch.messages.length;
        if (left <= 0) {
          window.close();
          resolve();
        }
      },
    })
    .catch(reject);
});
window.write(figures, tables, records - left);
await consumer.disconnect();
