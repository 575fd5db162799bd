/** The files of the specification, as tests read them. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const SPEC = join(root(dirname(fileURLToPath(import.meta.url))), "spec");

/** The decoded form of bytes in vectors. */
export type Raw = null | string | { readonly hex: string };

/** All JSON files of a directory of the specification, by name without ending. */
export function load<T>(...directory: string[]): Map<string, T> {
  const folder = join(SPEC, ...directory);
  const names = readdirSync(folder).filter((name) => name.endsWith(".json"));
  return new Map(
    names.sort().map((name) => {
      const text = readFileSync(join(folder, name), "utf8");
      return [name.slice(0, -".json".length), JSON.parse(text) as T];
    }),
  );
}

/** Bytes of a key or value of the decoded form. */
export function raw(part: Raw): Buffer | null {
  if (part === null) {
    return null;
  }
  return typeof part === "string" ? Buffer.from(part) : hex(part.hex);
}

export function hex(text: string): Buffer {
  return Buffer.from(text, "hex");
}

/** Compiled tests lie deeper than their sources: look upwards. */
function root(from: string): string {
  return existsSync(join(from, "spec", "PROTOCOL.md")) ? from : root(dirname(from));
}
