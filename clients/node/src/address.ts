/**
 * Where the sidecar is, and the token. Only PILLION_URL and PILLION_TOKEN_FILE are read from the
 * environment.
 */

import { readFileSync } from "node:fs";
import { UsageError } from "./errors.js";

export const DEFAULT_URL = "ws://127.0.0.1:7420";

/** A checked URL: a TCP address, or a Unix socket when path is there. */
export interface Address {
  readonly url: string;
  readonly path: string | null;
}

/** Take the argument, PILLION_URL or the default. Throws UsageError. */
export function address(url: string | undefined): Address {
  const text = url || process.env.PILLION_URL || DEFAULT_URL;
  if (text.startsWith("unix:")) {
    const path = text.slice("unix:".length).replace(/^\/\/(?=\/)/, "");
    if (path.startsWith("/")) {
      return { url: text, path };
    }
  } else if (URL.canParse(text)) {
    const { protocol, hostname, pathname, username, password, search, hash, host } = new URL(text);
    // wss is refused: the sidecar is on this machine, and speaks no TLS.
    const plain = username + password + search + hash === "" && pathname === "/";
    if (protocol === "ws:" && hostname !== "" && plain) {
      return { url: `ws://${host}`, path: null };
    }
  }
  throw new UsageError(
    `'${text}' is no address of a sidecar; set PILLION_URL to ws://host:port or unix:/path`,
    "bad_url",
  );
}

/** Take the argument, or read the file that PILLION_TOKEN_FILE names. Throws UsageError. */
export function readToken(token: string | undefined): string | null {
  if (token !== undefined) {
    return token;
  }
  const name = process.env.PILLION_TOKEN_FILE;
  if (!name) {
    return null;
  }
  let found: string;
  try {
    found = new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(name)).trim();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    const why = code.startsWith("E") && !code.startsWith("ERR_") ? code : "it is not text";
    throw new UsageError(
      `the token file ${name} cannot be read: ${why}; set PILLION_TOKEN_FILE to the file that the sidecar reads its token from`,
      "bad_token_file",
    );
  }
  return found;
}
