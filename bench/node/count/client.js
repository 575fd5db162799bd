/**
 * Count records by key over the protocol-level client: what the Worker does, by hand and for this
 * one job only. A Map for each task; every 100 ms the rows that have changed are committed.
 *
 * client.js SOURCE TABLE, as the child of `pillion run`, which says which group it is.
 */

import { connect, run } from "pillion/client";
import { Counts } from "./counts.js";

const [source, table] = process.argv.slice(2);
const COMMIT_INTERVAL_MS = 100;

/**
 * A task at work. Its counts go ahead of what is committed, which is right: after a commit that
 * failed `lost` comes, and all of it is dropped and restored.
 */
class Work {
  #counts = new Counts();
  #next = null;
  #sent = null;

  /** @param {import("pillion/client").Batch} batch of the changelog */
  restore(batch) {
    for (let i = 0; i < batch.length; i++) {
      this.#counts.set(batch.keyTextAt(i), Number(batch.valueAt(i).readBigInt64BE()));
    }
  }

  /** @param {import("pillion/client").Batch} batch of the source */
  count(batch) {
    for (let i = 0; i < batch.length; i++) {
      const key = batch.keyTextAt(i);
      if (key !== null) {
        this.#counts.add(key);
      }
    }
    this.#next = batch.nextOffset;
  }

  /**
   * Commit what was counted, when the commit before has been answered.
   *
   * @param {import("pillion/client").Connection} conn
   * @param {import("pillion/client").Task} task
   */
  async commit(conn, task) {
    if (this.#next === null || this.#sent !== null) {
      return;
    }
    const sourceNext = { [source]: this.#next };
    this.#next = null;
    this.#sent = conn.commit(task, { sourceNext, changelog: { [table]: this.#counts.take() } });
    await this.#sent; // when it fails, so does the program: it is alone, nothing may fail here
    this.#sent = null;
  }

  /** Make the last commit. */
  async finish(conn, task) {
    await this.#sent;
    this.#sent = null;
    await this.commit(conn, task);
  }
}

/** @param {import("pillion/client").Connection} conn */
async function count(conn) {
  /** @type {Map<import("pillion/client").Task, Work>} */
  const tasks = new Map();
  const timer = setInterval(() => {
    for (const [task, work] of tasks) {
      work.commit(conn, task);
    }
  }, COMMIT_INTERVAL_MS);
  for await (const event of conn) {
    const { task } = event;
    switch (event.type) {
      case "records":
        tasks.get(task).count(event.batch);
        break;
      case "restore":
        tasks.get(task).restore(event.batch);
        break;
      case "assigned":
        tasks.set(task, new Work());
        conn.opened(task, { [table]: null });
        break;
      case "restored":
        conn.ready(task);
        break;
      case "revoking":
        await tasks.get(task).finish(conn, task);
        conn.release(task);
        break;
      case "lost":
        tasks.delete(task);
        break;
      default:
    }
  }
  clearInterval(timer);
}

await run(async (signal) => {
  const sets = [{ name: "count", sources: [source], tables: [table] }];
  const conn = await connect({ sets, signal });
  try {
    await count(conn);
  } finally {
    await conn.close();
  }
});
