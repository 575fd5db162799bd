/** A value that does not fit: what is wrong with it, and the path that leads to it. */

import { SerdeError, UsageError } from "../errors.js";

export class Wrong extends Error {
  /** What is wrong, without the place. */
  text: string;
  #path = "";

  constructor(text: string) {
    super(text);
    this.text = text;
  }

  /** Put a step before the path: the name of a field, the number of an item. */
  under(part: string | number): this {
    const step = typeof part === "number" ? `[${part}]` : part;
    const dot = this.#path === "" || this.#path.startsWith("[") ? "" : ".";
    this.#path = `${step}${dot}${this.#path}`;
    return this;
  }

  get atTop(): boolean {
    return this.#path === "";
  }

  /** Make the sentence. subject stands for the whole, where no path leads further. */
  error(subject: string): SerdeError {
    const where = this.atTop ? subject : `field '${this.#path}'`;
    return new SerdeError(`${where} ${this.text}`);
  }
}

/** Make the Wrong of a value of another type. */
export function wrong(expected: string, found: unknown): Wrong {
  return new Wrong(`must be ${expected}, not ${typeName(found)}`);
}

/** Name the type of a value as programs write it. */
export function typeName(value: unknown): string {
  if (value === null || value === undefined) {
    return String(value);
  }
  if (typeof value !== "object") {
    return typeof value;
  }
  return (
    (Object.getPrototypeOf(value) as { constructor?: { name?: string } } | null)?.constructor
      ?.name ?? "object"
  );
}

/** What to throw when a part of a value threw: a Wrong names the part. */
export function under(part: string | number, error: unknown): unknown {
  return error instanceof Wrong ? error.under(part) : error;
}

/** Refuse what is no shape where one belongs, for those who have no compiler to tell them. */
export function checkShape(where: string, what: unknown): void {
  const { read, write } = (what ?? {}) as { read?: unknown; write?: unknown };
  if (typeof read !== "function" || typeof write !== "function") {
    const given = typeof what === "function" ? what.name || "a function" : typeName(what);
    throw new UsageError(
      `${where} must be a shape such as t.int or t.object({ ... }), not ${given}`,
    );
  }
}

const SHOWN = 32; // bytes of what did not decode that a sentence shows

/** Show bytes in a sentence, the first of them: text where it is text. */
export function shown(data: Uint8Array): string {
  const cut = Buffer.from(data.subarray(0, SHOWN));
  const text = cut.toString("latin1");
  const seen = /^[ -~]*$/.test(text) ? `'${text}'` : `hex ${cut.toString("hex")}`;
  return data.length <= SHOWN ? seen : `${seen}… (${data.length} bytes)`;
}
