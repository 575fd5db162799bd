"""What the end of a connection means: which error, and whether to come again. Pure."""

from __future__ import annotations

from . import _codes
from ._codes import CloseCode
from ._messages import Error
from .errors import (
    ConnectionFatal,
    ConnectionLost,
    Drained,
    KafkaFatal,
    PillionError,
    ProtocolError,
    Refused,
    Superseded,
    VersionMismatch,
)

_KINDS: dict[int, type[PillionError]] = {
    CloseCode.BAD_MESSAGE: ProtocolError,
    CloseCode.REFUSED: Refused,
    CloseCode.SUPERSEDED: Superseded,
    CloseCode.VERSION: VersionMismatch,
    CloseCode.DRAINED: Drained,
    CloseCode.TOO_LARGE: ProtocolError,
    CloseCode.CREDIT_OVERRUN: ProtocolError,
    CloseCode.KAFKA_FATAL: KafkaFatal,
}

_ADVICE: dict[int, str] = {
    CloseCode.REFUSED: "change what this worker declares",
    CloseCode.SUPERSEDED: "stop one of the two, or give each worker its own sidecar",
    CloseCode.VERSION: "use a sidecar and a client of the same major version",
    CloseCode.DRAINED: "this worker may end",
    CloseCode.KAFKA_FATAL: "read the sidecar's log",
}


def verdict(code: int | None, reason: str, error: Error | None, url: str) -> PillionError:
    """Turn a close into an error. It is a ConnectionLost when the client comes again.

    error is the message directly before the close, which says more than the code.
    """
    if code not in _codes.NO_RECONNECT:
        how = f"with {code}" if code else "without a word"
        said = error.message if error else reason
        return ConnectionLost(
            f"the connection to the sidecar at {url} ended {how}{': ' + said if said else ''}; "
            "it is made again"
        )
    kind = _KINDS.get(code, ConnectionFatal)
    name = CloseCode(code).name.lower()
    if error is not None:
        return kind(error.message, error.code)
    advice = _ADVICE.get(code, "report it as a fault of this client")
    return kind(f"the sidecar at {url} says: {_codes.CLOSE_MEANINGS[code]}; {advice}", name)
