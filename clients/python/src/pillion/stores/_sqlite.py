"""Tables in SQLite: they survive the process, and a restart replays only what came after.

Layout: ``<root>/<set or global table>/<table>.<partition>.sqlite``, one file for each task and
table, names made safe (safe_name). A file knows which table of which topic and partition it holds.
Workers of one machine may share a root: where another process has the file open (it is the active,
and this one keeps a copy), the next of ``<table>.<partition>.copy-2.sqlite``, ``-3``, … is taken.
One that is damaged or holds something else is renamed to ``….bad-N``, with a warning, and the table
starts empty: Kafka has it.

Rows and checkpoint change in one transaction (WAL, synchronous=NORMAL: safe against a crash of the
process; after a power failure the last transactions may be missing, together with their
checkpoint). Restored rows are gathered for a moment and written sorted, which is several times
faster; reads see them.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from .._batch import Batch
from .._notice import notice
from .._tasks import Task
from ..errors import StoreBusy, StoreCorrupt, StoreError

APPLICATION_ID = 0x504C4E31  # PLN1
FORMAT = 1
GATHER_ROWS = 32_768
GATHER_BYTES = 16 << 20
GATHER_SECONDS = 0.5
OPEN_WITHIN = 2.0  # seconds to wait for another process to let go
COPIES = 16  # files of one table, of processes that share a directory

_SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    "CREATE TABLE rows (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_TAKEN = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class SqliteStores:
    """Opens tables below a directory, which workers of one group may share."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def path(self, task: Task, table: str, copy: int = 1) -> Path:
        """Where the store of a table is; where others are that share the directory, from 2 on."""
        name = f"{safe_name(table)}.{task.partition}"
        return (
            self.root / safe_name(task.set) / f"{name}{f'.copy-{copy}' if copy > 1 else ''}.sqlite"
        )

    def open(self, task: Task, table: str) -> SqliteStore:
        """See Stores."""
        identity = f"{table} {task.tables[table].topic}/{task.partition}"
        paths = [self.path(task, table, copy) for copy in range(1, COPIES + 1)]
        kept = sorted((p for p in paths if p.exists()), key=_written_last, reverse=True)
        for path in kept:
            with suppress(StoreBusy):
                return SqliteStore(path, identity, 0.0)
        if task.role == "active" and kept:
            # Who hands a task over lets go of its file in a moment, which saves a replay.
            with suppress(StoreBusy):
                return SqliteStore(kept[0], identity)
        for path in paths[:-1]:
            if path not in kept:
                with suppress(StoreBusy):
                    return SqliteStore(path, identity, 0.0)
        return SqliteStore(paths[-1], identity, 0.0)


def _written_last(path: Path) -> float:
    """When a file was written."""
    times = [0.0]
    for each in (path, path.with_name(path.name + "-wal")):
        with suppress(OSError):
            times.append(each.stat().st_mtime)
    return max(times)


class SqliteStore:
    """A table in one SQLite file. identity says whose rows they are.

    StoreBusy when another process has it open and does not let go within so many seconds.
    """

    def __init__(self, path: str | Path, identity: str, within: float | None = None) -> None:
        self.path = Path(path)
        self._within = OPEN_WITHIN if within is None else within
        self._gathered: dict[bytes, bytes | None] = {}
        self._gathered_bytes = 0
        self._flushed_at = time.monotonic()
        self._db: sqlite3.Connection | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the directory {self.path.parent} cannot be made: {error}") from error
        try:
            self._open(identity)
        except StoreCorrupt:
            self._open(identity)

    def checkpoint(self) -> str | None:
        """See Store."""
        return self._checkpoint

    def apply(self, batch: Batch) -> None:
        """See Store."""
        self._gathered.update(zip(batch.keys, batch.values, strict=True))  # type: ignore[arg-type]
        self._gathered.pop(None, None)  # type: ignore[arg-type]
        self._gathered_bytes += batch.nbytes
        self._checkpoint = batch.checkpoint or self._checkpoint
        if (
            len(self._gathered) >= GATHER_ROWS
            or self._gathered_bytes >= GATHER_BYTES
            or time.monotonic() - self._flushed_at >= GATHER_SECONDS
        ):
            self.flush()

    def apply_commit(self, writes: Mapping[bytes, bytes | None], checkpoint: str) -> None:
        """See Store."""
        self._gathered.update(writes)
        self._checkpoint = checkpoint
        self.flush()

    def flush(self) -> None:
        """See Store."""
        self._flushed_at = time.monotonic()
        if not self._gathered and self._checkpoint == self._written:
            return
        rows = sorted(self._gathered.items())
        with self._transaction() as db:
            db.executemany(
                "REPLACE INTO rows VALUES (?, ?)", [row for row in rows if row[1] is not None]
            )
            db.executemany(
                "DELETE FROM rows WHERE k = ?", [row[:1] for row in rows if row[1] is None]
            )
            _set_meta(db, "checkpoint", self._checkpoint)
        self._written = self._checkpoint
        self._gathered.clear()
        self._gathered_bytes = 0

    def get(self, key: bytes) -> bytes | None:
        """See Store."""
        if self._gathered and key in self._gathered:
            return self._gathered[key]
        if self._db is None:
            raise StoreError(f"the store {self.path} is closed")
        try:
            found = self._db.execute("SELECT v FROM rows WHERE k = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return None if found is None else cast("bytes", found[0])

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """See Store. In the order of keys."""
        self.flush()
        with self._guard() as db:
            yield from cast(
                "Iterable[tuple[bytes, bytes]]", db.execute("SELECT k, v FROM rows ORDER BY k")
            )

    def __len__(self) -> int:
        self.flush()
        with self._guard() as db:
            return cast("int", db.execute("SELECT count(*) FROM rows").fetchone()[0])

    def wipe(self) -> None:
        """See Store."""
        self._gathered.clear()
        self._gathered_bytes = 0
        self._checkpoint = None
        with self._transaction() as db:
            db.execute("DELETE FROM rows")
            _set_meta(db, "checkpoint", None)
        self._written = None

    def close(self) -> None:
        """See Store."""
        if self._db is not None:
            try:
                self.flush()
            finally:
                self._let_go()

    # -- the file -------------------------------------------------------------------------------

    def _open(self, identity: str) -> None:
        try:
            self._db = sqlite3.connect(self.path, timeout=self._within, isolation_level=None)
        except sqlite3.Error as error:
            raise StoreError(f"the store {self.path} cannot be opened: {error}") from error
        try:
            self._prepare(identity)
        except BaseException:
            self._let_go()
            raise

    def _prepare(self, identity: str) -> None:
        with self._guard() as db:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            known = db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
            empty = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
            if not known and not empty:
                raise self._set_aside("is not a table of this client")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA cache_size = -16000")
        with self._transaction() as db:  # writes, so that the lock is taken now
            if not known:
                for statement in _SCHEMA:
                    db.execute(statement)
                _set_meta(db, "identity", identity)
            _set_meta(db, "opened", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        with self._guard() as db:
            if db.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                raise self._set_aside("has a format that this version does not read")
            found = dict(
                cast("list[tuple[str, str | None]]", db.execute("SELECT * FROM meta").fetchall())
            )
        if found.get("identity") != identity:
            raise self._set_aside(
                f"holds {found.get('identity')!r}, not {identity!r} "
                "(each group needs its own directory)"
            )
        self._checkpoint = self._written = found.get("checkpoint")

    def _let_go(self) -> None:
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None

    def _set_aside(self, why: str) -> StoreCorrupt:
        self._let_go()
        n = 1
        while (aside := self.path.with_name(f"{self.path.name}.bad-{n}")).exists():
            n += 1
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + suffix).rename(f"{aside}{suffix}")
        error = StoreCorrupt(
            f"the store {self.path} {why}; it is kept as {aside.name}, "
            "and the table is restored from Kafka"
        )
        notice(str(error))
        return error

    @contextmanager
    def _guard(self) -> Generator[sqlite3.Connection]:
        if self._db is None:
            raise StoreError(f"the store {self.path} is closed")
        try:
            yield self._db
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            return self._set_aside(f"is damaged ({error})")
        if code in _TAKEN:
            return StoreBusy(f"the store {self.path} fails: {error}; another process has it open")
        return StoreError(f"the store {self.path} fails: {error}")

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        with self._guard() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise


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


def _set_meta(db: sqlite3.Connection, name: str, value: str | None) -> None:
    db.execute("REPLACE INTO meta VALUES (?, ?)", (name, value))
