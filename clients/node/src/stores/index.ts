/** Where tables live. Memory and SQLite are here; any Store may be brought. */

export type { KeyText, Store, Stores, Writes } from "./base.js";
export type { FileOptions } from "./files.js";
export { MemoryStore, MemoryStores } from "./memory.js";
export { type SqliteOptions, SqliteStore, SqliteStores } from "./sqlite.js";
