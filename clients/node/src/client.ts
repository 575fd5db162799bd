/**
 * The protocol-level client: Kafka records, tables of bytes and commits over one local socket.
 *
 *     await using conn = await connect({ sets: [{ name: "words", sources: ["words"], tables: ["counts"] }] });
 *     for await (const event of conn) {
 *       ...
 *     }
 *
 * See Connection for what a program answers to which event.
 */

import { Connection } from "./connection.js";
import { type ConnectOptions, options } from "./options.js";

export { Batch, type Row } from "./batch.js";
export type { Changelog, Committed, Outputs, RowInit } from "./commits.js";
export { type CommitOptions, Connection, type FailOptions } from "./connection.js";
export type { Declarations, GlobalSpec, SetSpec, TableSpec } from "./declare.js";
export * from "./errors.js";
export type * from "./events.js";
export type { Holder, Located, Question, Shadow } from "./locate.js";
export type { Named } from "./named.js";
export type { ConnectOptions } from "./options.js";
export { run } from "./run.js";
export * from "./stores/index.js";
export { type Layer, outcome, type SendOptions, Tables, TableView } from "./tables.js";
export type { Task } from "./tasks.js";

/**
 * Connect to the sidecar; the promise resolves when it has said welcome.
 *
 * While no sidecar answers it is tried again for ever, with one sentence to notice after three
 * seconds; with connectTimeoutMs it rejects with SidecarUnreachable then. It rejects with UsageError,
 * HandshakeRefused or a ConnectionFatal when another attempt would end alike.
 */
export async function connect(given: ConnectOptions = {}): Promise<Connection> {
  const connection = new Connection(options(given));
  await connection.open();
  return connection;
}
