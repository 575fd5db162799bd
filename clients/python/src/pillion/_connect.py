"""connect(): options checked and put together."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from ._connection import Connection
from ._declare import Global, Set, TableList, declare
from ._dial import address
from ._options import Options, running

DEFAULT_WINDOW = 1 << 20
DEFAULT_MAX_FRAME = 128 << 20


def connect(
    url: str | None = None,
    token: str | None = None,
    *,
    sets: Sequence[Set] = (),
    sources: Sequence[str] = (),
    tables: TableList = (),
    globals: Sequence[Global] = (),
    outputs: Sequence[str] = (),
    group: str | None = None,
    replicas: int | None = None,
    advertise: str = "",
    window: int = DEFAULT_WINDOW,
    max_frame: int = DEFAULT_MAX_FRAME,
    name: str = "pillion-python",
    connect_timeout: float | None = None,
) -> Connection:
    """Make a connection to the sidecar; use it in ``async with``.

    url is ``ws://host:port`` or ``unix:/path``; without it PILLION_URL counts. token is the secret
    itself; without it the file that PILLION_TOKEN_FILE names is read at each connect.

    sets and globals say what is read and which tables are kept, outputs which other topics commits
    may write to. sources and tables stand in place of sets: the sidecar makes the sets then, topics
    with the same number of partitions together. group is the consumer group, unless the sidecar's
    group_id overrules it. name is how the sidecar's log calls this program. replicas is how many
    standby copies each task shall have, unless the sidecar's num_standby_replicas overrules it.
    advertise is the address that others get who ask where a key is (see Connection.locate); the
    sidecar does not look at it.

    window is how many bytes the sidecar may send ahead, for the connection and for each stream;
    max_frame is the largest frame accepted, so the largest record. While no sidecar answers it is
    tried again for ever, with one sentence on stderr after three seconds; with connect_timeout
    (3 s inside pillion.run) entering ``async with`` raises SidecarUnreachable then.
    """
    program = running.get()
    if connect_timeout is None and program is not None:
        connect_timeout = program.connect_timeout
    return Connection(
        Options(
            where=address(url),
            token=token,
            declaration=declare(sets, globals, outputs, group, sources, tables),
            window=window,
            max_frame=max_frame,
            name=name,
            version=version_of_client(),
            connect_timeout=connect_timeout,
            replicas=replicas,
            advertise=advertise,
        )
    )


def version_of_client() -> str:
    """The installed version of this package."""
    try:
        return version("pillion")
    except PackageNotFoundError:  # run from a checkout
        return "0.0.0"
