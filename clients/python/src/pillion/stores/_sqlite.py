"""Tables in SQLite: they survive the process, and a restart replays only what came after.

One file for each task and table; see _files for where it is and who has it.

Rows and checkpoint change in one transaction (WAL, synchronous=NORMAL: safe against a crash of the
process; after a power failure the last transactions may be missing, together with their
checkpoint). Restored rows are gathered for a moment and written sorted, which is several times
faster; reads see them.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from .._batch import Batch
from ..errors import StoreBusy, StoreCorrupt, StoreError, UsageError
from ._files import OPEN_WITHIN, FileStores, Rows, make_parent, pages, set_aside

APPLICATION_ID = 0x504C4E31  # PLN1
FORMAT = 1
# The more rows a transaction has, the more of them share a page that it writes. What all tables
# gather together is what comes from Kafka in GATHER_SECONDS.
GATHER_ROWS = 131_072
GATHER_BYTES = 32 << 20
GATHER_SECONDS = 1.0
PAGE_SIZE = 8192  # bytes; only of files that are made now
LOG_BYTES = 32 << 20  # of the write-ahead log, before it is copied into the file

_PRAGMAS = (
    f"page_size = {PAGE_SIZE}",
    "journal_mode = WAL",
    "synchronous = NORMAL",
    f"wal_autocheckpoint = {LOG_BYTES // PAGE_SIZE}",
    "cache_size = -16000",
    # Reads of a table larger than the cache, without a copy and a call each. As much as SQLite
    # allows; it takes address space, and memory only as the system has it to spare.
    "mmap_size = 2147418112",
)
_SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    "CREATE TABLE rows (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_TAKEN = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class SqliteStores(FileStores["SqliteStore"]):
    """Opens tables below a directory, which workers of one group may share."""

    suffix = ".sqlite"

    def _open(self, path: Path, identity: str, within: float) -> SqliteStore:
        return SqliteStore(path, identity, within)


class SqliteStore:
    """A table in one SQLite file. identity says whose rows they are.

    StoreBusy when another process has it open and does not let go within so many seconds.
    """

    ordered = True

    def __init__(self, path: str | Path, identity: str, within: float = OPEN_WITHIN) -> None:
        self.path = Path(path)
        self._within = within
        self._gathered: dict[bytes, bytes | None] = {}
        self._gathered_bytes = 0
        self._flushed_at = time.monotonic()
        self._db: sqlite3.Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        make_parent(self.path)
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
        if self._gathered or self._checkpoint != self._written:
            rows = self._gathered
            # Sorted rows go through the tree once, page after page.
            keys = sorted(rows)
            with self._transaction() as db:
                sets = ((key, value) for key in keys if (value := rows[key]) is not None)
                db.executemany("REPLACE INTO rows VALUES (?, ?)", sets)
                removed = ((key,) for key in keys if rows[key] is None)
                db.executemany("DELETE FROM rows WHERE k = ?", removed)
                _set_meta(db, "checkpoint", self._checkpoint)
            self._written = self._checkpoint
            self._gathered = {}
            self._gathered_bytes = 0
        # From its end: a large table takes longer than GATHER_SECONDS, and would gather no more.
        self._flushed_at = time.monotonic()

    def get(self, key: bytes) -> bytes | None:
        """See Store."""
        if self._gathered and key in self._gathered:
            return self._gathered[key]
        if self._cursor is None:
            raise StoreError(f"the store {self.path} is closed")
        try:
            # One cursor for all: making it would take a tenth of the time. The key is unique, so
            # that fetchone meets the end as well, and no read is left open.
            found = self._cursor.execute("SELECT v FROM rows WHERE k = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return None if found is None else cast("bytes", found[0])

    def items(
        self, start: bytes | None = None, stop: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """See Store. In the order of keys."""
        until, bound = ("", ()) if stop is None else ("AND k < ?", (stop,))
        query = f"SELECT k, v FROM rows WHERE k >= ? {until} ORDER BY k LIMIT ?"

        def read(at: bytes, limit: int) -> Rows:
            self.flush()
            with self._guard() as db:
                return db.execute(query, (at, *bound, limit)).fetchall()

        return pages(read, start)

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
            for pragma in _PRAGMAS:
                db.execute(f"PRAGMA {pragma}")
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
        with self._guard() as db:
            self._cursor = db.cursor()

    def _let_go(self) -> None:
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = self._cursor = None

    def _set_aside(self, why: str) -> StoreCorrupt:
        self._let_go()
        return set_aside(self.path, why, ("-wal", "-shm"))

    @contextmanager
    def _guard(self) -> Generator[sqlite3.Connection]:
        if self._db is None:
            raise StoreError(f"the store {self.path} is closed")
        try:
            yield self._db
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error) -> StoreError:
        if isinstance(error, sqlite3.ProgrammingError) and "thread" in str(error):
            raise UsageError(
                f"the store {self.path} belongs to another thread; read tables in that of the "
                "app's event loop"
            ) from error
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


def _set_meta(db: sqlite3.Connection, name: str, value: str | None) -> None:
    db.execute("REPLACE INTO meta VALUES (?, ?)", (name, value))
