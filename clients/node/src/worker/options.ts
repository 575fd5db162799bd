/** What a worker is made with. */

import type { Stores } from "../stores/index.js";
import { bad, checkNames, checkNumber, checkPolicy, type Names, shown } from "./checks.js";
import type { Logger } from "./logging.js";
import type { OnError } from "./policy.js";

export interface WorkerOptions {
  /** The consumer group, unless the sidecar's group_id overrules it. */
  readonly group?: string | undefined;
  /** `ws://host:port` or `unix:/path`; without it PILLION_URL counts. */
  readonly url?: string | undefined;
  /** The secret itself; without it the file that PILLION_TOKEN_FILE names is read at each connect. */
  readonly token?: string | undefined;
  /**
   * Tables are kept in SQLite files below it, so that a start reads only what is new. Each group
   * needs a directory of its own. Without it, and without stores, tables are in memory, and come
   * whole from Kafka at each start.
   */
  readonly stateDir?: string | undefined;
  /** Keeps tables elsewhere: `new MemoryStores()`, your own. */
  readonly stores?: Stores | undefined;
  /** What handlers have done is committed so often; 0: after each batch. */
  readonly commitIntervalMs?: number | undefined;
  /** What happens to a record that cannot be processed. Without it: stop(). */
  readonly onError?: OnError | undefined;
  /** How many standby copies each task shall have, unless num_standby_replicas overrules it. */
  readonly replicas?: number | undefined;
  /** The address that others get from locate(). */
  readonly advertise?: string | undefined;
  /** How the sidecar's log calls this program. */
  readonly name?: string | undefined;
  /** Bytes that the sidecar sends ahead for each task's topic, and 16 times as many in all. */
  readonly window?: number | undefined;
  /** The largest frame that is accepted, so the largest record. */
  readonly maxFrame?: number | undefined;
  /** How long a first connection may take. Without it: 3000 in run(), and as long as you like in start(). */
  readonly connectTimeoutMs?: number | undefined;
  /** Gets what happens. Without it the worker is silent; in run() warnings go to stderr. */
  readonly logger?: Logger | undefined;
  /** Aborted, it stops the worker as stop() does. */
  readonly signal?: AbortSignal | undefined;
}

const OPTIONS: Names<WorkerOptions> = {
  group: true,
  url: true,
  token: true,
  stateDir: true,
  stores: true,
  commitIntervalMs: true,
  onError: true,
  replicas: true,
  advertise: true,
  name: true,
  window: true,
  maxFrame: true,
  connectTimeoutMs: true,
  logger: true,
  signal: true,
};

/** Refuse what no worker can be made with. Throws UsageError. */
export function checkOptions(given: WorkerOptions): void {
  if (typeof given !== "object") {
    bad(`new Worker() takes an object: write new Worker({ group: ${shown(given)} })`);
  }
  checkNames("new Worker()", given, OPTIONS);
  const { commitIntervalMs, replicas, connectTimeoutMs } = given;
  for (const [name, value] of Object.entries({ commitIntervalMs, connectTimeoutMs })) {
    if (value !== undefined) {
      checkNumber(name, value, 0);
    }
  }
  if (replicas !== undefined) {
    checkNumber("replicas", replicas, 0, true);
  }
  checkPolicy("the worker", given.onError);
  if (given.stateDir !== undefined && given.stores !== undefined) {
    bad("stateDir and stores both say where tables are kept; give one of them");
  }
}
