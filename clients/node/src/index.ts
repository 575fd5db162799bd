/**
 * Pillion: stateful stream processing over Kafka, next to a sidecar that does the group's work.
 *
 *     const worker = new Worker({ group: "counting" });
 *     const words = worker.topic("words", { key: str(), value: str() });
 *     const counts = worker.table("counts", { key: str(), value: int(), default: () => 0 });
 *     worker.each(words, { tables: [counts] }, ({ value }, ctx) => {
 *       const rows = ctx.table(counts);
 *       rows.set(value ?? "", rows.get(value ?? "") + 1);
 *     });
 *     await worker.run();
 *
 * pillion/client has the protocol level, pillion/stores what keeps tables, pillion/testing drivers
 * for tests.
 */

export * from "./errors.js";
export type * from "./events.js";
export type { Holder, Located, Shadow } from "./locate.js";
export * from "./serdes/index.js";
export * from "./stores/index.js";
export * from "./worker/index.js";
