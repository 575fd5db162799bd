/**
 * Everything that this package throws on purpose.
 *
 *     PillionError                 code, retriable; message is one sentence: what, where, do this (code)
 *     ├── UsageError               the program or its environment is wrong
 *     ├── ConnectError             no connection could be made
 *     │   ├── SidecarUnreachable   nothing answers at the URL
 *     │   └── HandshakeRefused     token, Host, Origin or subprotocol refused
 *     ├── ConnectionLost           the connection ended; the client connects again by itself
 *     ├── ConnectionFatal          the connection ended with a code after which it stays away
 *     │   ├── Refused              the declarations do not fit Kafka or the settings
 *     │   ├── Superseded           a newer worker has connected to this sidecar
 *     │   ├── VersionMismatch      no protocol version in common
 *     │   ├── Drained              the sidecar has drained; a normal end
 *     │   └── KafkaFatal           Kafka refuses for good
 *     ├── ProtocolError            a message or frame breaks the protocol
 *     │   ├── MessageError         ... a control message
 *     │   └── FrameError           ... a data frame
 *     ├── CommitError              a commit did not end as committed
 *     │   ├── CommitRejected       refused before anything was sent to Kafka
 *     │   ├── CommitAborted        nothing of it is or will be visible
 *     │   ├── CommitStale          its epoch is over; nothing of it is or will be visible
 *     │   └── CommitUnknown        how it ended cannot be told
 *     ├── SerdeError               bytes that are not what a serde reads, a value it cannot write
 *     ├── LocateError              it cannot be told where a key is
 *     └── StoreError               a store cannot be opened, read or written
 *         ├── StoreBusy            another process has it open
 *         └── StoreCorrupt         its file was damaged, and has been set aside
 *
 * A retriable error is a normal event of a group: its task is opened anew, and the records come
 * again. One that is not retriable needs a human. Test `code`, which never changes, where two copies
 * of the package may meet and `instanceof` would not hold.
 */

export interface ErrorDetail {
  readonly retriable?: boolean;
  readonly cause?: unknown;
}

/** Base of all errors of this package. */
export class PillionError extends Error {
  readonly code: string;
  readonly retriable: boolean;
  /** The sentence without its code. */
  readonly text: string;

  constructor(text: string, code = "internal", detail: ErrorDetail = {}) {
    const line = oneLine(text);
    super(sentence(line, code), "cause" in detail ? { cause: detail.cause } : undefined);
    this.name = new.target.name;
    this.code = code;
    this.retriable = detail.retriable ?? false;
    this.text = line;
  }
}

/** Make the one sentence that a user reads. The code stands at its end, once. */
export function sentence(text: string, code: string): string {
  const line = oneLine(text).replace(/\.+$/, "");
  return line.endsWith(`(${code})`) ? line : `${line} (${code})`;
}

function oneLine(text: string): string {
  return text.trim().replace(/\s+/g, " ");
}

/** The program calls the library wrongly, or its environment is wrong. */
export class UsageError extends PillionError {
  constructor(text: string, code = "usage", detail: ErrorDetail = {}) {
    super(text, code, detail);
  }
}

/** No connection could be made. */
export class ConnectError extends PillionError {}

/** Nothing answers at the URL. */
export class SidecarUnreachable extends ConnectError {
  constructor(text: string, code = "sidecar_unreachable", detail: ErrorDetail = {}) {
    super(text, code, { retriable: true, ...detail });
  }
}

/** The sidecar refused the handshake: token, Host, Origin or subprotocol. */
export class HandshakeRefused extends ConnectError {}

/** The connection ended. Commits that were not answered may or may not be in Kafka. */
export class ConnectionLost extends PillionError {
  constructor(text: string, code = "connection_lost", detail: ErrorDetail = {}) {
    super(text, code, { retriable: true, ...detail });
  }
}

/** The connection ended with a code after which a client does not come again. */
export class ConnectionFatal extends PillionError {}

/** The declarations of this worker do not fit Kafka or the sidecar's settings. */
export class Refused extends ConnectionFatal {
  constructor(text: string, code = "refused", detail: ErrorDetail = {}) {
    super(text, code, detail);
  }
}

/** A newer worker has connected to the same sidecar. */
export class Superseded extends ConnectionFatal {
  constructor(text: string, code = "superseded", detail: ErrorDetail = {}) {
    super(text, code, detail);
  }
}

/** Client and sidecar have no protocol version in common. */
export class VersionMismatch extends ConnectionFatal {
  constructor(text: string, code = "version", detail: ErrorDetail = {}) {
    super(text, code, detail);
  }
}

/** The sidecar has drained and leaves: a normal end. */
export class Drained extends ConnectionFatal {
  constructor(text: string, code = "drained", detail: ErrorDetail = {}) {
    super(text, code, detail);
  }
}

/** Kafka refuses for good. */
export class KafkaFatal extends ConnectionFatal {
  constructor(text: string, code = "kafka_fatal", detail: ErrorDetail = {}) {
    super(text, code, detail);
  }
}

/** A message or frame breaks the protocol. */
export class ProtocolError extends PillionError {
  constructor(text: string, code = "bad_message", detail: ErrorDetail = {}) {
    super(text, code, detail);
  }
}

/** A control message breaks the protocol. */
export class MessageError extends ProtocolError {
  /** The request that it belongs to; 0 for none. */
  readonly re: number;

  constructor(text: string, code = "bad_message", re = 0) {
    super(text, code);
    this.re = re;
  }

  /** Whether the two sides no longer agree on where they are: it was no request. */
  get fatal(): boolean {
    return this.code === "bad_message" && this.re === 0;
  }
}

/** A data frame breaks the protocol. */
export class FrameError extends ProtocolError {
  /** The rule that it breaks, in a word of the vectors. */
  readonly reason: string;

  constructor(text: string, reason = "", code = "bad_message") {
    super(`bad frame: ${text}`, code);
    this.reason = reason;
  }
}

/** A commit did not end as committed. A lost event of its task follows, unless it was rejected. */
export class CommitError extends PillionError {}

/** The commit was refused before anything was sent to Kafka. */
export class CommitRejected extends CommitError {}

/** Nothing of the commit is or will be visible. */
export class CommitAborted extends CommitError {}

/** The commit's epoch is over: nothing of it is or will be visible. */
export class CommitStale extends CommitError {
  constructor(text: string, code = "stale_epoch", detail: ErrorDetail = {}) {
    super(text, code, { retriable: true, ...detail });
  }
}

/** How the commit ended cannot be told. Its records come again if it did not land. */
export class CommitUnknown extends CommitError {
  constructor(text: string, code = "internal", detail: ErrorDetail = {}) {
    super(text, code, { retriable: true, ...detail });
  }
}

/** A value cannot be encoded, or bytes cannot be decoded. It says why, not where. */
export class SerdeError extends PillionError {
  constructor(text: string, code = "serde", detail: ErrorDetail = {}) {
    super(text, code, detail);
  }
}

/** It cannot be told where a key is. A retriable one: ask again. */
export class LocateError extends PillionError {}

/** A store cannot be opened, read or written. */
export class StoreError extends PillionError {
  constructor(text: string, code = "store_open_failed", detail: ErrorDetail = {}) {
    super(text, code, { retriable: true, ...detail });
  }
}

/** Another process has the store open. */
export class StoreBusy extends StoreError {}

/** A store's file was damaged. It has been set aside; the next open starts empty. */
export class StoreCorrupt extends StoreError {}
