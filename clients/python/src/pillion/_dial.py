"""Where the sidecar is, and one attempt to get a websocket to it.

Only PILLION_URL and PILLION_TOKEN_FILE are read from the environment. No proxy is ever used: the
sidecar is on this machine.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from . import _codes
from .errors import ConnectError, HandshakeRefused, SidecarUnreachable, UsageError

DEFAULT_URL = "ws://127.0.0.1:7420"


@dataclass(frozen=True, slots=True)
class Address:
    """A checked URL: a TCP address or a Unix socket."""

    url: str
    path: str | None = None


def address(url: str | None) -> Address:
    """Take the argument, PILLION_URL or the default. Raises UsageError."""
    text = url or os.environ.get("PILLION_URL") or DEFAULT_URL
    if text.startswith("unix:"):
        path = text.removeprefix("unix:").removeprefix("//")
        if path.startswith("/"):
            return Address(text, path)
    else:
        try:
            parts = urlsplit(text)
            if parts.scheme == "ws" and parts.hostname and parts.path in ("", "/"):
                return Address(f"ws://{parts.netloc}" if parts.port else text)
        except ValueError:
            pass
    raise UsageError(
        f"{text!r} is no address of a sidecar; set PILLION_URL to ws://host:port or unix:/path",
        "bad_url",
    )


def read_token(token: str | None) -> str | None:
    """Take the argument or the file that PILLION_TOKEN_FILE names. Raises UsageError."""
    if token is not None:
        return token
    name = os.environ.get("PILLION_TOKEN_FILE")
    if not name:
        return None
    try:
        return Path(name).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(
            f"the token file {name} cannot be read: {reason}; set PILLION_TOKEN_FILE to the file "
            "that the sidecar reads its token from",
            "bad_token_file",
        ) from None


class _Attempt(connect):
    """A handshake. A sidecar never redirects: what does is none, and gets no token elsewhere."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Take it for any other answer."""
        return exc


async def dial(
    where: Address, token: str | None, max_size: int, timeout: float
) -> ClientConnection:
    """Make one attempt. Raises ConnectError; retriable says whether another one may help."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    socket: dict[str, Any] = {} if where.path is None else {"unix": True, "path": where.path}
    attempt = _Attempt(
        where.url if where.path is None else "ws://localhost/",
        subprotocols=[Subprotocol(_codes.SUBPROTOCOL)],
        additional_headers=headers,
        compression=None,
        ping_interval=None,
        max_size=max_size,
        max_queue=4,
        open_timeout=timeout,
        close_timeout=2,
        proxy=None,
        **socket,
    )
    try:
        websocket = await attempt
    except InvalidStatus as error:
        raise _refused(where, error.response.status_code) from None
    except (OSError, TimeoutError, InvalidHandshake, EOFError):
        raise unreachable(where) from None
    if websocket.subprotocol != _codes.SUBPROTOCOL:
        await websocket.close()  # no sidecar: one would have refused the handshake
        raise unreachable(where)
    return websocket


def unreachable(where: Address) -> SidecarUnreachable:
    """The sentence for an address at which nothing answers."""
    return SidecarUnreachable(
        f"no sidecar answers at {where.url}; start it with 'pillion run', or set PILLION_URL to "
        "where it listens"
    )


_ADVICE = {
    _codes.HttpRefusal.UNAUTHORIZED: (
        "refuses the token; set PILLION_TOKEN_FILE to the file that the sidecar reads its token "
        "from"
    ),
    _codes.HttpRefusal.FORBIDDEN: (
        "refuses the handshake's Host or Origin; set PILLION_URL to the address that it listens on"
    ),
    _codes.HttpRefusal.NOT_FOUND: (
        "knows no worker's path there; set PILLION_URL to ws://host:port without a path"
    ),
    _codes.HttpRefusal.BAD_SUBPROTOCOL: (
        f"does not speak {_codes.SUBPROTOCOL}; use a sidecar and a client of the same major version"
    ),
}


def _refused(where: Address, status: int) -> ConnectError:
    try:
        refusal = _codes.HttpRefusal(status)
    except ValueError:
        return unreachable(where)
    if refusal not in _ADVICE:
        return unreachable(where)
    return HandshakeRefused(f"the sidecar at {where.url} {_ADVICE[refusal]}", refusal.name.lower())
