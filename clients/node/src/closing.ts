/** What the end of a connection means: which error, and whether to come again. Pure. */

import { CLOSE_MEANINGS, CloseCode, NO_RECONNECT } from "./codes.js";
import {
  ConnectionFatal,
  ConnectionLost,
  Drained,
  KafkaFatal,
  type PillionError,
  ProtocolError,
  Refused,
  Superseded,
  VersionMismatch,
} from "./errors.js";

type Kind = new (text: string, code?: string) => PillionError;

const KINDS: ReadonlyMap<number, Kind> = new Map<number, Kind>([
  [CloseCode.BadMessage, ProtocolError],
  [CloseCode.Refused, Refused],
  [CloseCode.Superseded, Superseded],
  [CloseCode.Version, VersionMismatch],
  [CloseCode.Drained, Drained],
  [CloseCode.TooLarge, ProtocolError],
  [CloseCode.CreditOverrun, ProtocolError],
  [CloseCode.KafkaFatal, KafkaFatal],
]);

const ADVICE: ReadonlyMap<number, string> = new Map([
  [CloseCode.Refused, "change what this worker declares"],
  [CloseCode.Superseded, "stop one of the two, or give each worker its own sidecar"],
  [CloseCode.Version, "use a sidecar and a client of the same major version"],
  [CloseCode.Drained, "this worker may end"],
  [CloseCode.KafkaFatal, "read the sidecar's log"],
]);

const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(CloseCode).map(([name, code]) => [
    code,
    name.replace(/(?<=[a-z])[A-Z]/g, (c) => `_${c}`).toLowerCase(),
  ]),
);

/**
 * Turn a close into an error. It is a ConnectionLost when the client comes again.
 *
 * code is null when the socket ended without a close. said is the error message directly before the
 * close, which says more than the code.
 */
export function verdict(
  code: number | null,
  reason: string,
  said: { readonly code: string; readonly message: string } | null,
  url: string,
): PillionError {
  if (code === null || !NO_RECONNECT.has(code)) {
    const how = code === null ? "without a word" : `with ${code}`;
    const why = said?.message || reason;
    return new ConnectionLost(
      `the connection to the sidecar at ${url} ended ${how}${why ? `: ${why}` : ""}; it is made again`,
    );
  }
  const kind = KINDS.get(code) ?? ConnectionFatal;
  if (said !== null) {
    return new kind(said.message, said.code);
  }
  const advice = ADVICE.get(code) ?? "report it as a fault of this client";
  const meaning = CLOSE_MEANINGS.get(code) ?? `close code ${code}`;
  return new kind(
    `the sidecar at ${url} says: ${meaning}; ${advice}`,
    NAMES.get(code) ?? "internal",
  );
}
