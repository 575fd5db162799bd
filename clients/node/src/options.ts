/** What a connection is made with: checked, and put together. */

import { type Address, address } from "./address.js";
import { type Declaration, type Declarations, declare } from "./declare.js";
import { type Dial, dial } from "./dial.js";
import { UsageError } from "./errors.js";
import type { DraftOf } from "./messages.js";
import { notice } from "./notice.js";
import { VERSION } from "./protocol.js";
import { type Clock, realClock } from "./signal.js";

export const DEFAULT_WINDOW = 1 << 20;
export const DEFAULT_MAX_FRAME = 128 << 20;

export interface ConnectOptions extends Declarations {
  /** `ws://host:port` or `unix:/path`; without it PILLION_URL counts. */
  readonly url?: string | undefined;
  /** The secret itself; without it the file that PILLION_TOKEN_FILE names is read at each connect. */
  readonly token?: string | undefined;
  /** How many standby copies each task shall have, unless num_standby_replicas overrules it. */
  readonly replicas?: number | undefined;
  /** The address that others get who ask where a key is. The sidecar does not look at it. */
  readonly advertise?: string | undefined;
  /** Bytes that the sidecar may send ahead, for the connection and for each stream. */
  readonly window?: number | undefined;
  /** The largest frame that is accepted, so the largest record. */
  readonly maxFrame?: number | undefined;
  /** How the sidecar's log calls this program. */
  readonly name?: string | undefined;
  /** Give up a first connection after so many ms. Without it: try for ever. */
  readonly connectTimeoutMs?: number | undefined;
  /** Aborted, it ends the iteration over events, so that the program can finish and close. */
  readonly signal?: AbortSignal | undefined;
  /** Gets what a person should read: no sidecar answers, Kafka is away. Without it: stderr. */
  readonly notice?: ((sentence: string) => void) | undefined;
}

/** What tests replace. */
export interface Outside {
  readonly dial: Dial;
  readonly clock: Clock;
  /** From 0 to 1, as Math.random. */
  readonly random: () => number;
}

const OUTSIDE: Outside = { dial, clock: realClock, random: Math.random };

/** Everything that connect() takes, checked. */
export interface Options {
  readonly where: Address;
  readonly token: string | undefined;
  readonly declaration: Declaration;
  readonly window: number;
  /** Bytes that the sidecar may send ahead in all. */
  readonly ahead: number;
  readonly maxFrame: number;
  readonly name: string;
  readonly replicas: number | undefined;
  readonly advertise: string;
  readonly connectTimeoutMs: number | undefined;
  readonly signal: AbortSignal | undefined;
  readonly notice: (sentence: string) => void;
  readonly outside: Outside;
}

/** Check what the user gave. Throws UsageError. declaration: what it declares, when that is known. */
export function options(
  given: ConnectOptions,
  outside: Partial<Outside> = {},
  declaration: Declaration = declare(given),
): Options {
  const { window = DEFAULT_WINDOW, maxFrame = DEFAULT_MAX_FRAME, replicas } = given;
  for (const [name, value] of Object.entries({ window, maxFrame })) {
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new UsageError(`${name} is ${value}; give a number of bytes from 1 on`);
    }
  }
  if (replicas !== undefined && !(Number.isSafeInteger(replicas) && replicas >= 0)) {
    throw new UsageError(`replicas is ${replicas}; give a number from 0 on`);
  }
  return {
    where: address(given.url),
    token: given.token,
    declaration,
    window,
    ahead: window,
    maxFrame,
    name: given.name ?? "pillion-node",
    replicas,
    advertise: given.advertise ?? "",
    connectTimeoutMs: given.connectTimeoutMs,
    signal: given.signal,
    notice: given.notice ?? notice,
    outside: { ...OUTSIDE, ...outside },
  };
}

/** The first message of a connection. */
export function hello(from: Options): DraftOf<"hello"> {
  const { window, ahead, maxFrame, name, replicas, advertise } = from;
  return {
    type: "hello",
    id: 1,
    versions: [VERSION],
    client: { name, version: CLIENT_VERSION, language: "node" },
    maxFrame,
    credit: { connection: ahead, stream: window },
    level: "standby",
    replicas,
    address: advertise,
    ...from.declaration,
  };
}

/** The version of this package. A test compares it with package.json. */
export const CLIENT_VERSION = "0.1.0";
