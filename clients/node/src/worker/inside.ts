/** The door into a worker for tests and drivers. No promise is made about what is behind it. */

import type { Connection } from "../connection.js";
import type { Event } from "../events.js";
import type { Options, Outside } from "../options.js";
import type { Stores } from "../stores/index.js";
import type { Clock } from "./clock.js";
import type { Runtime } from "./runtime.js";
import type { Topology } from "./topology.js";

/** `worker[inside]`. */
export const inside: unique symbol = Symbol("pillion.inside");

export interface InsideRuntime {
  readonly connect: () => Connection;
  readonly stores: Stores;
  readonly clock: Clock;
  readonly commitIntervalMs: number;
  /** Called with each event, before those of worker.watch(). */
  readonly watch?: (event: Event) => void;
}

export interface InsideOptions {
  /** In place of the worker's. */
  readonly url?: string;
  readonly connectTimeoutMs?: number | undefined;
  readonly outside?: Partial<Outside>;
}

export interface Inside {
  /** Add up what was declared. Throws UsageError. */
  topology(): Topology;
  /** What a connection of the worker is made with: `new Connection(...)`. */
  options(given?: InsideOptions): Options;
  /** Make a run of the worker, which its stop(), ready() and local() are about then. */
  runtime(given: InsideRuntime): Runtime;
}
