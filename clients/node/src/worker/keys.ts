/**
 * Keys of tables: from what handlers have to the text of a row's key, one character for each byte,
 * and back.
 *
 * The generic way is through the bytes of the serde. Keys of str() and int(), which most tables
 * have, go without bytes in between.
 */

import { inspect } from "node:util";
import { SerdeError } from "../errors.js";
import { bigint, int, str } from "../serdes/scalars.js";
import type { Serde } from "../serdes/serde.js";
import { shown } from "../serdes/wrong.js";
import type { KeyText } from "../stores/base.js";
import { describe } from "./policy.js";

/** The keys of one table. Both methods throw SerdeError, which names the table. */
export interface Keys<K> {
  /**
   * Whether two keys are the same key of a Map exactly when their bytes are equal. A serde of the
   * user may give two strings the same bytes, and two objects are never the same key.
   */
  readonly byValue: boolean;
  toText(key: K): KeyText;
  ofText(text: KeyText): K;
}

/** Find how a table's keys are read and written. */
export function keysOf<K>(table: string, serde: Serde<K>): Keys<K> {
  const { toText, ofText } = waysOf(serde);
  return {
    byValue: byValue(serde),
    toText(key) {
      try {
        return toText(key);
      } catch (error) {
        const name = inspect(key, { depth: 1, breakLength: Number.POSITIVE_INFINITY });
        const text = `${name} cannot be a key of table '${table}': ${describe(error)}`;
        throw new SerdeError(text, "serde", { cause: error });
      }
    },
    ofText(text) {
      try {
        return ofText(text);
      } catch (error) {
        const name = shown(Buffer.from(text, "latin1"));
        const says = `the key ${name} of table '${table}' does not decode: ${describe(error)}`;
        throw new SerdeError(says, "serde", { cause: error });
      }
    },
  };
}

type Ways<K> = Pick<Keys<K>, "toText" | "ofText">;

function waysOf<K>(serde: Serde<K>): Ways<K> {
  const through: Ways<K> = {
    toText(key) {
      const { buffer, byteOffset, byteLength } = serde.encode(key);
      return Buffer.from(buffer, byteOffset, byteLength).toString("latin1");
    },
    ofText: (text) => serde.decode(Buffer.from(text, "latin1")),
  };
  if ((serde as unknown) !== str()) {
    return through;
  }
  return {
    toText: (key) => (isAscii(key) ? key : through.toText(key)),
    ofText: (text) => (isAscii<K>(text) ? text : through.ofText(text)),
  };
}

/** ASCII is its own UTF-8. */
function isAscii<K>(text: K | string): text is K & string {
  if (typeof text !== "string" || text.length > 64) {
    return false;
  }
  for (let i = 0; i < text.length; i++) {
    if (text.charCodeAt(i) > 0x7f) {
      return false;
    }
  }
  return true;
}

function byValue(serde: unknown): boolean {
  const scalars: unknown[] = [str(), int(), bigint()];
  return scalars.includes(serde);
}
