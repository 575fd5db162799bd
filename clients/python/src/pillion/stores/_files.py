"""What stores that live in files have in common: where they are, who has them, what is set aside.

Layout: ``<root>/<set or global table>/<table>.<partition><suffix>``, one file or directory for each
task and table, names made safe (safe_name). Each knows which table of which topic and partition it
holds. Workers of one machine may share a root: where another process has it open (that is the
active, and this one keeps a copy), the next of ``<table>.<partition>.copy-2<suffix>``, ``-3``, … is
taken. One that is damaged or holds something else is renamed to ``….bad-N``, with a warning, and
the table starts empty: Kafka has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from .._notice import notice
from .._tasks import Task
from ..errors import StoreBusy, StoreCorrupt, StoreError
from ._base import Store

OPEN_WITHIN = 2.0  # seconds to wait for another process to let go
COPIES = 16  # files of one table, of processes that share a directory
FIRST_PAGE = 16  # rows; a short range should not read far behind its end
PAGE_ROWS = 4096
PAGE_BYTES = 1 << 20

S = TypeVar("S", bound=Store)
Rows = list[tuple[bytes, bytes]]


class FileStores(Generic[S]):
    """Opens tables below a directory, which workers of one group may share."""

    suffix = ""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def path(self, task: Task, table: str, copy: int = 1) -> Path:
        """Where the store of a table is; where others are that share the directory, from 2 on."""
        name = f"{safe_name(table)}.{task.partition}{f'.copy-{copy}' if copy > 1 else ''}"
        return self.root / safe_name(task.set) / f"{name}{self.suffix}"

    def open(self, task: Task, table: str) -> S:
        """See Stores."""
        identity = f"{table} {task.tables[table].topic}/{task.partition}"
        paths = [self.path(task, table, copy) for copy in range(1, COPIES + 1)]
        kept = sorted((p for p in paths if p.exists()), key=_written_last, reverse=True)
        for path in kept:
            with suppress(StoreBusy):
                return self._open(path, identity, 0.0)
        if task.role == "active" and kept:
            # Who hands a task over lets go of its file in a moment, which saves a replay.
            with suppress(StoreBusy):
                return self._open(kept[0], identity, OPEN_WITHIN)
        for path in paths[:-1]:
            if path not in kept:
                with suppress(StoreBusy):
                    return self._open(path, identity, 0.0)
        return self._open(paths[-1], identity, 0.0)

    def _open(self, path: Path, identity: str, within: float) -> S:
        """Open one. StoreBusy when it is not let go within so many seconds."""
        raise NotImplementedError


def _written_last(path: Path) -> float:
    """When a store was written."""
    times = [0.0]
    with suppress(OSError):
        inside = list(path.iterdir()) if path.is_dir() else []
        for each in (path, path.with_name(path.name + "-wal"), *inside):
            with suppress(OSError):
                times.append(each.stat().st_mtime)
    return max(times)


def make_parent(path: Path) -> None:
    """Make the directory that a store is in. StoreError when that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the directory {path.parent} cannot be made: {error}") from error


def set_aside(path: Path, why: str, companions: tuple[str, ...] = ()) -> StoreCorrupt:
    """Rename a store that is of no use, and say so. It must be closed; the error is for raising."""
    n = 1
    while (aside := path.with_name(f"{path.name}.bad-{n}")).exists():
        n += 1
    for suffix in ("", *companions):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(f"{aside}{suffix}")
    error = StoreCorrupt(
        f"the store {path} {why}; it is kept as {aside.name}, and the table is restored from Kafka"
    )
    notice(str(error))
    return error


def pages(read: Callable[[bytes, int], Rows], start: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    """Walk a store that may change meanwhile; read(key, n) gives up to n rows from a key on.

    INVARIANT: keys only ascend, so no row comes twice, and none that stays is passed over.
    INVARIANT: nothing of the store is held between two pages: no cursor, snapshot or lock.
    """
    at, rows_wanted = start or b"", FIRST_PAGE
    while rows := read(at, rows_wanted):
        yield from rows
        if len(rows) < rows_wanted:
            return
        at = rows[-1][0] + b"\0"  # the very next key in the order of bytes
        nbytes = 1 + sum(len(key) + len(value) for key, value in rows)
        rows_wanted = max(1, min(PAGE_ROWS, 2 * len(rows), len(rows) * PAGE_BYTES // nbytes))


def safe_name(name: str) -> str:
    """Make a file name of any text: letters, digits, - _ and inner dots stay, others become %XX."""
    made = "".join(
        char if char.isascii() and (char.isalnum() or char in "-_" or (char == "." and i)) else
        "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        for i, char in enumerate(name)
    )  # fmt: skip
    if len(made) > 120:
        made = (
            f"{made[:100]}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
        )
    return made or "%"
