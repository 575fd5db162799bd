"""Everything that this package raises on purpose.

    PillionError                 code, retriable; str() is one sentence: what, where, do this (code)
    ├── UsageError               the program or its environment is wrong (also a ValueError)
    ├── ConnectError             no connection could be made
    │   ├── SidecarUnreachable   nothing answers at the URL
    │   └── HandshakeRefused     token, Host, Origin or subprotocol refused
    ├── ConnectionLost           the connection ended; the client connects again by itself
    ├── ConnectionFatal          the connection ended with a code after which it stays away
    │   ├── Refused              the declarations do not fit Kafka or the settings
    │   ├── Superseded           a newer worker has connected to this sidecar
    │   ├── VersionMismatch      no protocol version in common
    │   ├── Drained              the sidecar has drained; a normal end
    │   └── KafkaFatal           Kafka refuses for good
    ├── ProtocolError            a message or frame breaks the protocol
    │   ├── MessageError         ... a control message
    │   └── FrameError           ... a data frame
    ├── CommitError              a commit did not end as committed
    │   ├── CommitRejected       refused before anything was sent to Kafka
    │   ├── CommitAborted        nothing of it is or will be visible
    │   ├── CommitStale          its epoch is over; nothing of it is or will be visible
    │   └── CommitUnknown        how it ended cannot be told
    ├── SerdeError               bytes that are not what a serde reads, a value it cannot write
    ├── LocateError              it cannot be told where a key is
    └── StoreError               a store cannot be opened, read or written
        └── StoreCorrupt         its file was damaged and has been set aside

A retriable error is a normal event of a group: its task is opened anew, and the records come
again. One that is not retriable needs a human.
"""

from __future__ import annotations

from . import _codes


class PillionError(Exception):
    """Base of all errors of this package."""

    code: str = "internal"
    retriable: bool = False

    def __init__(
        self, message: str, code: str | None = None, *, retriable: bool | None = None
    ) -> None:
        if code is not None:
            self.code = code
        if retriable is not None:
            self.retriable = retriable
        self.message = " ".join(message.split())
        super().__init__(sentence(self.message, self.code))


def sentence(message: str, code: str) -> str:
    """Make the one sentence that a user reads. The code stands at its end, once."""
    line = " ".join(message.split()).rstrip(".")
    return line if line.endswith(f"({code})") else f"{line} ({code})"


def retriable(code: str) -> bool:
    """Say whether an error code of the protocol is worth another attempt."""
    return code in _codes.RETRIABLE


class UsageError(PillionError, ValueError):
    """The program calls the library wrongly, or its environment is wrong."""

    code = "usage"


class ConnectError(PillionError):
    """No connection could be made."""


class SidecarUnreachable(ConnectError):
    """Nothing answers at the URL."""

    code = "sidecar_unreachable"
    retriable = True


class HandshakeRefused(ConnectError):
    """The sidecar refused the handshake: token, Host, Origin or subprotocol."""


class ConnectionLost(PillionError):
    """The connection ended. Commits that were not answered may or may not be in Kafka."""

    code = "connection_lost"
    retriable = True


class ConnectionFatal(PillionError):
    """The connection ended with a code after which a client does not come again."""


class Refused(ConnectionFatal):
    """The declarations of this worker do not fit Kafka or the sidecar's settings."""

    code = "refused"


class Superseded(ConnectionFatal):
    """A newer worker has connected to the same sidecar."""

    code = "superseded"


class VersionMismatch(ConnectionFatal):
    """Client and sidecar have no protocol version in common."""

    code = "version"


class Drained(ConnectionFatal):
    """The sidecar has drained and leaves: a normal end."""

    code = "drained"


class KafkaFatal(ConnectionFatal):
    """Kafka refuses for good."""

    code = "kafka_fatal"


class ProtocolError(PillionError):
    """A message or frame breaks the protocol."""

    code = "bad_message"


class MessageError(ProtocolError):
    """A control message breaks the protocol. re is the request that it belongs to, if any."""

    def __init__(self, message: str, code: str | None = None, *, re: int = 0) -> None:
        super().__init__(message, code)
        self.re = re

    @property
    def fatal(self) -> bool:
        """Whether the two sides no longer agree on where they are: it was no request."""
        return self.code == _codes.Code.BAD_MESSAGE and self.re == 0


class FrameError(ProtocolError):
    """A data frame breaks the protocol. reason is the rule that it breaks."""

    def __init__(self, message: str, code: str | None = None, *, reason: str = "") -> None:
        super().__init__(f"bad frame: {message}", code)
        self.reason = reason


class CommitError(PillionError):
    """A commit did not end as committed. A Lost event of its task follows, unless rejected."""


class CommitRejected(CommitError):
    """The commit was refused before anything was sent to Kafka."""


class CommitAborted(CommitError):
    """Nothing of the commit is or will be visible."""


class CommitStale(CommitError):
    """The commit's epoch is over: nothing of it is or will be visible."""

    code = "stale_epoch"
    retriable = True


class CommitUnknown(CommitError):
    """How the commit ended cannot be told. Its records come again if it did not land."""

    retriable = True


class SerdeError(PillionError):
    """A value cannot be encoded, or bytes cannot be decoded. It says why, not where."""

    code = "serde"


class LocateError(PillionError):
    """It cannot be told where a key is. A retriable one: ask again."""


class StoreError(PillionError):
    """A store cannot be opened, read or written."""

    code = "store_open_failed"
    retriable = True


class StoreBusy(StoreError):
    """Another process has the store open."""


class StoreCorrupt(StoreError):
    """A store's file was damaged. It has been set aside; the next open starts empty."""
