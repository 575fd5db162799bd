/** Shapes that have parts: lists, sets, maps, objects. */

import type { Field, Of, Shape } from "./shapes.js";
import { Fraction, quote, sorted } from "./text.js";
import { checkShape, under, Wrong, wrong } from "./wrong.js";

// biome-ignore lint/suspicious/noExplicitAny: a shape is neither more nor less special than its type
type Fields = Readonly<Record<string, Shape<any>>>;
type ObjectOf<F extends Fields> = { [K in keyof F]: Of<F[K]> };

export function list<T>(item: Shape<T>): Shape<T[]> {
  checkShape("the item of t.list()", item);
  const name = `list of ${item.name}`;
  return {
    name,
    scalar: false,
    nullable: false,
    read: (found) => each(asList(name, found), (part) => item.read(part)),
    write(value, canonical) {
      return `[${each(asList(name, value) as T[], (part) => item.write(part, canonical)).join(",")}]`;
    },
  };
}

/** A set of single values: in the order of its items' bytes, each once. */
export function set<T>(item: Shape<T>): Shape<Set<T>> {
  checkShape("the item of t.set()", item);
  const name = `set of ${item.name}`;
  return {
    name,
    scalar: false,
    nullable: false,
    read: (found) => new Set(each(asList(name, found), (part) => item.read(part))),
    write(value, canonical) {
      if (!(value instanceof Set)) {
        throw wrong(name, value);
      }
      const texts = new Set(each([...value], (part) => item.write(part, canonical)));
      const bytes = Array.from(texts, (text) => Buffer.from(text)).sort(Buffer.compare);
      return `[${bytes.join(",")}]`;
    },
  };
}

/** Names of any kind with values of one: an object, as JSON.parse makes it. */
export function map<T>(item: Shape<T>): Shape<Record<string, T>> {
  checkShape("the item of t.map()", item);
  const name = `map of ${item.name}`;
  return {
    name,
    scalar: false,
    nullable: false,
    read(found) {
      const members = Object.entries(asObject(name, found));
      return Object.fromEntries(
        members.map(([key, part]) => [key, at(key, () => item.read(part))]),
      );
    },
    write(value, canonical) {
      const given = asPlain(name, value) as Readonly<Record<string, T>>;
      const names = Object.keys(given);
      const parts = (canonical ? sorted(names) : names).map((key) =>
        at(key, () => `${quote(key)}:${item.write(given[key] as T, canonical)}`),
      );
      return `{${parts.join(",")}}`;
    },
  };
}

/** Fields of their own kinds. What JSON has beside them is ignored. */
export function object<F extends Fields>(fields: F): Shape<ObjectOf<F>> {
  for (const [name, shape] of Object.entries(fields)) {
    checkShape(`field '${name}' of t.object()`, shape);
  }
  const parts = Object.entries(fields).map(([name, shape]) => ({
    name,
    text: `${quote(name)}:`,
    shape: shape as Shape<unknown> & Partial<Field<unknown>>,
  }));
  const inOrder = sorted(Object.keys(fields)).flatMap((name) =>
    parts.filter((part) => part.name === name),
  );
  const known = new Set(Object.keys(fields));
  return {
    name: "object",
    scalar: false,
    nullable: false,
    read(found) {
      const given = asObject("object", found);
      const made = parts.map(({ name, shape }) => {
        if (Object.hasOwn(given, name)) {
          return [name, at(name, () => shape.read(given[name]))];
        }
        if (shape.fallback === undefined) {
          throw new Wrong("is missing").under(name);
        }
        return [name, shape.fallback()];
      });
      return Object.fromEntries(made) as ObjectOf<F>;
    },
    write(value, canonical) {
      const given = asPlain("object", value);
      const lost = Object.keys(given).find((name) => !known.has(name));
      if (lost !== undefined) {
        throw new Wrong("is a field that the type does not have: it would be lost").under(lost);
      }
      const texts = (canonical ? inOrder : parts).map(({ name, text, shape }) => {
        if (!Object.hasOwn(given, name)) {
          throw new Wrong("is missing").under(name);
        }
        return at(name, () => text + shape.write(given[name], canonical));
      });
      return `{${texts.join(",")}}`;
    },
  };
}

function each<T, R>(parts: readonly T[], run: (part: T) => R): R[] {
  return parts.map((part, i) => at(i, () => run(part)));
}

function at<R>(part: string | number, run: () => R): R {
  try {
    return run();
  } catch (error) {
    throw under(part, error);
  }
}

function asList(name: string, found: unknown): unknown[] {
  if (!Array.isArray(found)) {
    throw wrong(name, found);
  }
  return found;
}

function asObject(name: string, found: unknown): Readonly<Record<string, unknown>> {
  const other = Array.isArray(found) || found instanceof Fraction;
  if (typeof found !== "object" || found === null || other) {
    throw wrong(name, found);
  }
  return found as Readonly<Record<string, unknown>>;
}

/** An instance of a class would come back as an object of none. */
function asPlain(name: string, value: unknown): Readonly<Record<string, unknown>> {
  const given = asObject(name, value);
  const prototype: unknown = Object.getPrototypeOf(given);
  if (prototype !== Object.prototype && prototype !== null) {
    throw wrong(`a plain ${name}`, value);
  }
  return given;
}
