import { type Connection, SqliteStores, Tables } from "../../src/client.js";

/** Words in; a table of how often each was there. */
export async function count(conn: Connection, directory: string): Promise<void> {
  using tables = new Tables(conn, new SqliteStores(directory));
  for await (const event of tables) {
    if (event.type === "records") {
      const counts = tables.of(event.task).get("counts");
      for (const { value } of event.batch) {
        const word = value?.toString("latin1") ?? "";
        const before = Number(counts?.find(word) ?? 0);
        counts?.write(word, Buffer.from(`${before + 1}`));
      }
      await tables.commit(event);
    }
  }
}
