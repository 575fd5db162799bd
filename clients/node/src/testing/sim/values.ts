/** What stands in the lines of a scenario: keys, values, records, and fields that must be known. */

import { decodeKey, type HeaderInit } from "../../headers.js";
import {
  type Fields,
  type Incoming,
  integer,
  type Kind,
  list,
  MAX_INTEGER,
  maybe,
  object,
  text,
  wireName,
} from "../../schema.js";
import type { Epoch } from "./epoch.js";
import type { Stored } from "./kafka.js";
import type { Session } from "./session.js";

export type AnyFields = Readonly<Record<string, unknown>>;

const PLACE = /"\$(\w+)(?: ([^" ]+))?(?: ([^" ]+))?"/g;

/** A kind that is only read. */
export function reading<T>(read: (found: unknown, at: string) => T): Kind<never, T> {
  return { read, write: (value) => value };
}

export const anything = reading((found) => found);

export const anObject = reading((found, at): AnyFields => {
  if (typeof found !== "object" || found === null || Array.isArray(found)) {
    throw new TypeError(`${at} is no JSON object`);
  }
  return found as AnyFields;
});

/** An object all of whose fields are known. */
export function strict<F extends Fields>(fields: F): Kind<never, Incoming<F>> {
  const known = new Set(Object.keys(fields).map(wireName));
  const kind = object(fields);
  return reading((found, at) => {
    const unknown = Object.keys(anObject.read(found, at)).filter((name) => !known.has(name));
    if (unknown.length > 0) {
      throw new TypeError(`unknown fields ${unknown.sort().join(", ")}`);
    }
    return kind.read(found, at);
  });
}

const form = strict({
  hex: maybe(text(/^(?:[0-9a-f]{2})*$/)),
  repeat: maybe(text()),
  times: maybe(integer(0)),
});

/** A key or value: null, a string, {"hex"} or {"repeat", "times"}. */
export const data = reading((found, at): Buffer | null => {
  if (found === null) {
    return null;
  }
  if (typeof found === "string") {
    return Buffer.from(found);
  }
  const { hex = "", repeat = "", times = 0 } = form.read(found, at);
  return Buffer.concat([Buffer.from(hex, "hex"), Buffer.from(repeat.repeat(times))]);
});

const header = reading((found, at): HeaderInit => {
  const [name, value, ...more] = list(data).read(found, at);
  if (name === undefined || value === undefined || more.length > 0) {
    throw new TypeError(`${at} is no pair of a name and a value`);
  }
  return [decodeKey(name ?? Buffer.alloc(0)), value];
});

const whole = strict({
  key: maybe(data),
  value: maybe(data),
  offset: maybe(integer(0)),
  timestamp: maybe(integer(-MAX_INTEGER)),
  headers: maybe(list(header)),
});

/** A record: [key, value], [offset, key, value] or an object. */
export const stored = reading((found, at): Stored => {
  if (!Array.isArray(found)) {
    const { key = null, value = null, ...rest } = whole.read(found, at);
    return { key, value, ...rest };
  }
  const offset = found.length === 3 ? integer(0).read(found[0], at) : undefined;
  const [key, value, ...more] = list(data).read(found.slice(offset === undefined ? 0 : 1), at);
  if (key === undefined || value === undefined || more.length > 0) {
    throw new TypeError(`${at} is no record: write [key, value] or [offset, key, value]`);
  }
  return { key, value, offset };
});

/** A position, or "end" for all that was sent. */
export const position = reading((found, at) =>
  found === "end" ? found : integer(0).read(found, at),
);

/** Put numbers and names where a scenario writes "$id", "$epoch words/0" and the like. */
export function fillIn(session: Session, json: string): string {
  return json.replace(PLACE, (place, what: string, task = "", name = "") => {
    if (what === "id") {
      return String(session.nextId());
    }
    const epoch = session.tasks.get(task);
    const found = epoch === undefined ? undefined : named(epoch, what, name);
    if (found === undefined) {
      throw new RangeError(`there is no ${place}`);
    }
    return JSON.stringify(found);
  });
}

/** Bytes for people. */
export function shown(bytes: Uint8Array | null): string {
  return bytes === null ? "null" : JSON.stringify(Buffer.from(bytes).toString("latin1"));
}

function named(epoch: Epoch, what: string, name: string): string | number | undefined {
  switch (what) {
    case "epoch":
      return epoch.number;
    case "task":
      return epoch.wireName;
    case "stream":
      return (epoch.tables.get(name) ?? epoch.sources.get(name))?.id;
    default:
      return undefined;
  }
}
