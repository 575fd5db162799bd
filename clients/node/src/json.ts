/**
 * JSON text to values, with numbers as they are written. Pure.
 *
 * JSON.parse says what is JSON, and reads it when every number in it is a whole one that a number
 * holds exactly. Only a text that may have another one is read a second time, token by token:
 * JSON.parse gives 1 for 1.0, and the caller must be able to tell (Node 20 has no source text in
 * JSON.parse's reviver yet).
 *
 * INVARIANT: tokens() reads only what JSON.parse has taken, so it need not check anything.
 */

/** Makes a value of a number's text. Not called for whole numbers of up to 15 digits. */
export type ReadNumber = (text: string) => unknown;

// 15 digits always fit. A digit before a point, an e or a long number in a string costs only time.
const NOT_PLAIN = /\d[.eE]|\d{16}|-0/;
const TOKEN = /-?\d[\d.eE+-]*|[[\]{}]|true|false|null/y;
const BETWEEN = /[\s,:]*/y;
const PLAIN = /^(?:0|-?[1-9]\d{0,14})$/;

/** Read JSON. Throws SyntaxError, and RangeError for what is nested some thousand levels deep. */
export function parse(text: string, number: ReadNumber): unknown {
  const found: unknown = JSON.parse(text);
  return NOT_PLAIN.test(text) ? new Reader(text, number).value() : found;
}

class Reader {
  #at = 0;
  readonly #text: string;
  readonly #number: ReadNumber;

  constructor(text: string, number: ReadNumber) {
    this.#text = text;
    this.#number = number;
  }

  value(): unknown {
    return this.#of(this.#token());
  }

  #token(): string {
    BETWEEN.lastIndex = this.#at;
    BETWEEN.test(this.#text);
    if (this.#text[BETWEEN.lastIndex] === '"') {
      return this.#string(BETWEEN.lastIndex);
    }
    TOKEN.lastIndex = BETWEEN.lastIndex;
    const token = TOKEN.exec(this.#text)?.[0] ?? "";
    this.#at = TOKEN.lastIndex;
    return token;
  }

  /** A string ends at the next quote before which stand an even number of backslashes. */
  #string(from: number): string {
    for (let end = this.#text.indexOf('"', from + 1); ; end = this.#text.indexOf('"', end + 1)) {
      let before = end;
      while (this.#text[before - 1] === "\\") {
        before--;
      }
      if ((end - before) % 2 === 0) {
        this.#at = end + 1;
        return this.#text.slice(from, this.#at);
      }
    }
  }

  #of(token: string): unknown {
    switch (token[0]) {
      case "{":
        return this.#members();
      case "[":
        return this.#items();
      case '"':
      case "t":
      case "f":
      case "n":
        return JSON.parse(token);
      default:
        return PLAIN.test(token) ? Number(token) : this.#number(token);
    }
  }

  #items(): unknown[] {
    const items: unknown[] = [];
    for (let token = this.#token(); token !== "]"; token = this.#token()) {
      items.push(this.#of(token));
    }
    return items;
  }

  #members(): Record<string, unknown> {
    // A map first: assigning to a name such as __proto__ does not make a member.
    const members = new Map<string, unknown>();
    for (let token = this.#token(); token !== "}"; token = this.#token()) {
      members.set(JSON.parse(token) as string, this.value());
    }
    return Object.fromEntries(members);
  }
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Read UTF-8 strictly; a byte order mark stays. Throws TypeError. */
export function utf8(bytes: Uint8Array): string {
  return UTF8.decode(bytes);
}
