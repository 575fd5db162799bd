/**
 * Count records by key with kafkajs alone: a Map for each partition; every 100 ms the rows that
 * have changed are written to a changelog, and then the positions are committed. Counting goes on
 * meanwhile. It ends when it is told to. Fetches have their default size: larger ones are decoded
 * without a pause in which a commit could go on.
 *
 * kafkajs.js BROKERS GROUP SOURCE CHANGELOG
 */

import { kafka, LZ4 } from "../kafkajs.js";
import { Counts } from "./counts.js";

const [brokers, group, source, changelog] = process.argv.slice(2);
const COMMIT_INTERVAL_MS = 100;

/** A partition at work. */
class Work {
  #counts = new Counts();
  #next = null;

  constructor(partition) {
    this.partition = partition;
  }

  count(batch) {
    for (const { key } of batch.messages) {
      if (key !== null) {
        this.#counts.add(key.toString("latin1"));
      }
    }
    this.#next = String(BigInt(batch.lastOffset()) + 1n);
  }

  /** What is to be written, and the position after it; nothing when there is nothing new. */
  take() {
    if (this.#next === null) {
      return [];
    }
    const { partition } = this;
    const position = { topic: source, partition, offset: this.#next };
    this.#next = null;
    const messages = this.#counts.take().map(([key, value]) => ({ key, value, partition }));
    return [{ messages, position }];
  }
}

const client = kafka(brokers);
const producer = client.producer({ allowAutoTopicCreation: false });
const consumer = client.consumer({ groupId: group, maxWaitTimeInMs: 100 });
/** @type {Map<number, Work>} */
const partitions = new Map();
let committing = false;

async function commit() {
  if (committing) {
    return;
  }
  committing = true;
  const taken = [...partitions.values()].flatMap((work) => work.take());
  if (taken.length > 0) {
    const messages = taken.flatMap((each) => each.messages);
    await producer.send({ topic: changelog, messages, compression: LZ4 }); // acks: all
    await consumer.commitOffsets(taken.map((each) => each.position));
  }
  committing = false;
}

consumer.on(consumer.events.CRASH, ({ payload }) => {
  throw payload.error; // it is alone, nothing may fail here
});
await producer.connect();
await consumer.connect();
await consumer.subscribe({ topics: [source], fromBeginning: true });
await consumer.run({
  autoCommit: false,
  eachBatch: async ({ batch }) => {
    if (!partitions.has(batch.partition)) {
      partitions.set(batch.partition, new Work(batch.partition));
    }
    partitions.get(batch.partition).count(batch);
  },
});
setInterval(commit, COMMIT_INTERVAL_MS);
