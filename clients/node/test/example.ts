import { type Connection, connect, PillionError, run } from "../src/client.js";

/** Words in, the same in capitals out. */
export async function shout(conn: Connection): Promise<void> {
  for await (const event of conn) {
    switch (event.type) {
      case "assigned":
        conn.opened(event.task, {}); // there are no tables: no checkpoints
        break;
      case "restored":
        conn.ready(event.task);
        break;
      case "records": {
        const { batch } = event;
        const shouts = Array.from(batch, ({ key, value }) => {
          const loud = value === null ? null : Buffer.from(value.toString().toUpperCase());
          return { key, value: loud };
        });
        try {
          await conn.commit(batch, { outputs: { shouts } });
        } catch (error) {
          if (!(error instanceof PillionError && error.retriable)) {
            throw error; // a person has to look
          } // else lost comes, and the records come again
        }
        break;
      }
      case "revoking":
        conn.release(event.task); // all that was taken is committed
        break;
      default: // waiting, lost: nothing is kept for a task
    }
  }
}

export async function main(signal: AbortSignal): Promise<void> {
  const sets = [{ name: "words", sources: ["words"] }];
  await using conn = await connect({ group: "shouts", sets, outputs: ["shouts"], signal });
  await shout(conn);
}

if (process.argv[1] === import.meta.filename) {
  await run(main);
}
