/**
 * What a field of a control message may hold. Each kind reads what JSON gave and writes what
 * JSON.stringify takes. Pure.
 *
 * A message is declared once, in messages.ts, and gives two types: Outgoing, what a writer passes
 * (what is optional may be left out), and Incoming, what a reader gets (what is optional and absent
 * is empty, or undefined). Names are camelCase here and snake_case on the wire.
 */

import { MessageError } from "./errors.js";

/** One kind of value. read throws MessageError; at is the path that it names. */
export interface Kind<In, Out = In> {
  read(found: unknown, at: string): Out;
  write(value: In): unknown;
}

/** A field that may be absent: it reads as absent() then, and what leaveOut says is not written. */
export interface Optional<In, Out = In> extends Kind<In, Out> {
  absent(): Out;
  leaveOut(value: unknown): boolean;
}

export type Fields = Readonly<Record<string, Kind<never, unknown>>>;
type Simplify<T> = { [K in keyof T]: T[K] } & {};
type InOf<K> = K extends Kind<infer In, unknown> ? In : never;
type OutOf<K> = K extends Kind<never, infer Out> ? Out : never;
type Absent<F> = { [K in keyof F]: F[K] extends Optional<never, unknown> ? K : never }[keyof F];

/** What a writer passes. */
export type Outgoing<F extends Fields> = Simplify<
  { readonly [K in Exclude<keyof F, Absent<F>>]: InOf<F[K]> } & {
    readonly [K in Absent<F>]?: InOf<F[K]> | undefined;
  }
>;

/** What a reader gets. */
export type Incoming<F extends Fields> = Simplify<{ readonly [K in keyof F]: OutOf<F[K]> }>;

/** An object, and the kinds of its fields. */
export interface ObjectKind<F extends Fields> extends Kind<Outgoing<F>, Incoming<F>> {
  readonly fields: F;
}

/** An object of whatever fields. */
export type AnyObject = Kind<never, unknown> & { readonly fields: Fields };

export const MAX_INTEGER = Number.MAX_SAFE_INTEGER; // every language reads it exactly

/** A whole number. Fractions and exponents have become something else than a number before. */
export function integer(low: number, high = MAX_INTEGER): Kind<number> {
  return {
    read(found, at) {
      if (typeof found !== "number" || !Number.isInteger(found) || found < low || found > high) {
        throw new MessageError(`${at} is not a whole number from ${low} to ${high}`);
      }
      return found;
    },
    write: same,
  };
}

/** Text. With a pattern it must match the whole of it; without one it may be anything. */
export function text(pattern?: RegExp): Kind<string> {
  return {
    read(found, at) {
      if (typeof found !== "string") {
        throw new MessageError(`${at} is not a string`);
      }
      if (pattern !== undefined && !pattern.test(found)) {
        throw new MessageError(
          found === "" ? `${at} is empty` : `${at} does not match ${pattern.source}`,
        );
      }
      return found;
    },
    write: same,
  };
}

/** One of some words. */
export function word<const W extends string>(...words: readonly W[]): Kind<W> {
  return {
    read(found, at) {
      const known = words.find((each) => each === found);
      if (known === undefined) {
        throw new MessageError(`${at} is not one of ${words.join(", ")}`);
      }
      return known;
    },
    write: same,
  };
}

export const boolean: Kind<boolean> = {
  read(found, at) {
    if (typeof found !== "boolean") {
      throw new MessageError(`${at} is not true or false`);
    }
    return found;
  },
  write: same,
};

/** null, or what the kind allows. */
export function nullable<In, Out>(kind: Kind<In, Out>): Kind<In | null, Out | null> {
  return {
    read: (found, at) => (found === null ? null : kind.read(found, at)),
    write: (value) => (value === null ? null : kind.write(value)),
  };
}

export function list<In, Out>(kind: Kind<In, Out>): Kind<readonly In[], readonly Out[]> {
  return {
    read(found, at) {
      if (!Array.isArray(found)) {
        throw new MessageError(`${at} is not a list`);
      }
      return found.map((each: unknown, i) => kind.read(each, `${at}[${i}]`));
    },
    write: (value) => value.map((each) => kind.write(each)),
  };
}

/** Names of the user's choice. A Map, so that no name is a member of Object. */
export function map<In, Out>(
  kind: Kind<In, Out>,
): Kind<ReadonlyMap<string, In>, ReadonlyMap<string, Out>> {
  return {
    read(found, at) {
      return new Map(members(found, at).map(([name, each]) => [name, kind.read(each, at)]));
    },
    write: (value) =>
      Object.fromEntries([...value].map(([name, each]) => [name, kind.write(each)])),
  };
}

/** Values by stream number, which JSON has as a name. */
export function streams<In, Out>(
  kind: Kind<In, Out>,
): Kind<ReadonlyMap<number, In>, ReadonlyMap<number, Out>> {
  const number = integer(0, 2 ** 32 - 1);
  return {
    read(found, at) {
      return new Map(
        members(found, at).map(([name, each]) => {
          if (!/^(?:0|[1-9]\d{0,9})$/.test(name)) {
            throw new MessageError(`${at} has a key that is not a stream`);
          }
          return [number.read(Number(name), at), kind.read(each, at)];
        }),
      );
    },
    write: (value) =>
      Object.fromEntries([...value].map(([stream, each]) => [stream, kind.write(each)])),
  };
}

/** A list or map that has something in it. */
export function filled<In, Out extends Sized>(kind: Kind<In, Out>): Kind<In, Out> {
  return {
    read(found, at) {
      const made = kind.read(found, at);
      if (isEmpty(made)) {
        throw new MessageError(`${at} is empty`);
      }
      return made;
    },
    write: (value) => kind.write(value),
  };
}

/** May be absent, and is undefined then. */
export function maybe<In, Out>(kind: Kind<In, Out>): Optional<In, Out | undefined> {
  return { ...kind, absent: () => undefined, leaveOut: (value) => value === undefined };
}

/** May be absent, which is the same as empty: "", 0, a list or map with nothing in it. */
export function or<In, Out>(kind: Kind<In, Out>, empty: () => Out): Optional<In, Out> {
  return { ...kind, absent: empty, leaveOut: isEmpty };
}

/** What a field is called on the wire. */
export function wireName(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

export function object<F extends Fields>(fields: F): ObjectKind<F> {
  const parts = Object.entries(fields).map(([name, kind]) => ({
    name,
    wire: wireName(name),
    kind: kind as Kind<unknown> & Partial<Optional<unknown>>,
  }));
  return {
    fields,
    read(found, at) {
      const given = new Map(members(found, at));
      const made: Record<string, unknown> = {};
      for (const { name, wire, kind } of parts) {
        if (given.has(wire)) {
          made[name] = kind.read(given.get(wire), `${at}.${wire}`);
        } else if (kind.absent === undefined) {
          throw new MessageError(`${at}.${wire} is missing`);
        } else {
          made[name] = kind.absent();
        }
      }
      return made as Incoming<F>;
    },
    write(value) {
      const made: Record<string, unknown> = {};
      for (const { name, wire, kind } of parts) {
        const given = (value as Readonly<Record<string, unknown>>)[name];
        if (kind.leaveOut === undefined || !kind.leaveOut(given)) {
          made[wire] = kind.write(given);
        }
      }
      return made;
    },
  };
}

type Sized = { readonly length: number } | { readonly size: number };

function isEmpty(value: unknown): boolean {
  if (value instanceof Map) {
    return value.size === 0;
  }
  return (
    value === undefined ||
    value === "" ||
    value === 0 ||
    (Array.isArray(value) && value.length === 0)
  );
}

function members(found: unknown, at: string): [string, unknown][] {
  if (typeof found !== "object" || found === null || Array.isArray(found)) {
    throw new MessageError(`${at} is not an object`);
  }
  return Object.entries(found);
}

function same<T>(value: T): T {
  return value;
}
