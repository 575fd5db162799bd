"""Tables in RocksDB, through the package rocksdict: for tables that are much larger than memory.

One directory for each task and table; see _files for where it is and who has it.

Rows are the default column family, checkpoint and identity the family "meta"; a write batch changes
both as one. What was written survives a crash of the process at once, so flush has nothing to do;
after a power failure the last batches may be missing, together with their checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .._batch import Batch
from ..errors import StoreBusy, StoreCorrupt, StoreError, UsageError
from ._files import OPEN_WITHIN, FileStores, Rows, make_parent, pages, set_aside

if TYPE_CHECKING:
    import rocksdict

CACHE_BYTES = 64 << 20  # of blocks that were read, for all tables of one RocksStores together
BUFFER_BYTES = 128 << 20  # of rows that are not in sorted files yet, likewise
TABLE_BUFFER_BYTES = 32 << 20  # likewise, of one table
META = "meta"
POLL = 0.02  # seconds between two attempts to open


class RocksStores(FileStores["RocksStore"]):
    """Opens tables below a directory, which workers of one group may share.

    UsageError when rocksdict is not installed.
    """

    suffix = ".rocks"

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self._memory = _Memory()

    def _open(self, path: Path, identity: str, within: float) -> RocksStore:
        return RocksStore(path, identity, within, memory=self._memory)


class _Memory:
    """The memory that tables share, and the options that say so."""

    def __init__(self) -> None:
        try:
            import rocksdict
        except ImportError as error:
            raise UsageError(
                "RocksDB needs the package rocksdict: pip install 'pillion[rocksdb]'"
            ) from error
        self.rocksdict = rocksdict
        self._cache = rocksdict.Cache(CACHE_BYTES)
        self._buffers = rocksdict.WriteBufferManager(BUFFER_BYTES, False)

    def options(self) -> rocksdict.Options:
        r = self.rocksdict
        blocks = r.BlockBasedOptions()
        blocks.set_block_cache(self._cache)
        blocks.set_bloom_filter(10, False)
        blocks.set_data_block_index_type(r.DataBlockIndexType.binary_and_hash())
        options = r.Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_block_based_table_factory(blocks)
        options.set_compression_type(r.DBCompressionType.lz4())
        options.set_write_buffer_manager(self._buffers)
        options.set_write_buffer_size(TABLE_BUFFER_BYTES)
        # Else the checkpoints, which never fill a buffer, would keep all logs since the start.
        options.set_atomic_flush(True)
        options.set_max_open_files(256)
        options.set_keep_log_file_num(2)
        options.set_stats_dump_period_sec(0)
        return options


class RocksStore:
    """A table in one RocksDB directory. identity says whose rows they are.

    StoreBusy when another process has it open and does not let go within so many seconds.
    """

    ordered = True

    def __init__(
        self,
        path: str | Path,
        identity: str,
        within: float = OPEN_WITHIN,
        *,
        memory: _Memory | None = None,
    ) -> None:
        self.path = Path(path)
        self._within = within
        self._memory = memory or _Memory()
        self._batch = self._memory.rocksdict.WriteBatch
        self._db: rocksdict.Rdict | None = None
        self._meta: rocksdict.ColumnFamily | None = None
        self._checkpoint: str | None = None
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
        self._write(self._changes(batch.items()), batch.checkpoint or self._checkpoint)

    def apply_commit(self, writes: Mapping[bytes, bytes | None], checkpoint: str) -> None:
        """See Store."""
        self._write(self._changes(writes.items()), checkpoint)

    def flush(self) -> None:
        """See Store. Each write is in the log of the file system already."""

    def get(self, key: bytes) -> bytes | None:
        """See Store."""
        try:
            return self._opened().get(key)
        except StoreError:
            raise
        except Exception as error:
            raise self._failed(error) from error

    def items(
        self, start: bytes | None = None, stop: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """See Store. In the order of keys."""
        options = self._memory.rocksdict.ReadOptions()
        if stop is not None:
            options.set_iterate_upper_bound(stop)

        def read(at: bytes, limit: int) -> Rows:
            # An iterator holds the directory's lock, even after close: none may outlive the page,
            # and one without a name is not in an error's traceback either.
            if stop is not None and at >= stop:
                return []
            db = self._opened()
            try:
                return cast("Rows", list(islice(db.items(from_key=at, read_opt=options), limit)))
            except Exception as error:
                raise self._failed(error) from error

        return pages(read, start)

    def __len__(self) -> int:
        db = self._opened()
        try:
            return sum(1 for _ in db.keys())  # noqa: SIM118  (an Rdict is no dict: it has no len)
        except Exception as error:
            raise self._failed(error) from error

    def wipe(self) -> None:
        """See Store."""
        changes = self._batch(raw_mode=True)
        if (last := self._last_key()) is not None:
            changes.delete_range(b"", last)
            changes.delete(last)  # the end of a range is not in it
        self._write(changes, None)

    def close(self) -> None:
        """See Store."""
        self._let_go()

    # -- the directory --------------------------------------------------------------------------

    def _open(self, identity: str) -> None:
        r = self._memory.rocksdict
        if self.path.exists() and not self.path.is_dir():
            raise self._set_aside("is not a table of this client")
        deadline = time.monotonic() + self._within
        while self._db is None:
            families = {META: r.Options(raw_mode=True)}
            try:
                self._db = r.Rdict(str(self.path), self._memory.options(), families)
            except Exception as error:
                failed = self._failed(error, opening=True)
                if not isinstance(failed, StoreBusy) or time.monotonic() >= deadline:
                    raise failed from error
                time.sleep(POLL)
        try:
            self._identify(identity)
        except BaseException:
            self._let_go()
            raise

    def _identify(self, identity: str) -> None:
        db = self._opened()
        try:
            meta = db.get_column_family(META)
            found, checkpoint = (cast("bytes | None", meta.get(name)) for name in _NAMES)
            del meta  # it holds the lock, too
            self._meta = db.get_column_family_handle(META)
        except Exception as error:
            raise self._failed(error) from error
        if found is None and self._last_key() is not None:
            raise self._set_aside("is not a table of this client")
        if found is None:
            changes = self._batch(raw_mode=True)
            changes.put(_IDENTITY, identity.encode(), self._meta)
            self._write(changes, None)
        elif found != identity.encode():
            raise self._set_aside(
                f"holds {found.decode('utf-8', 'replace')!r}, not {identity!r} "
                "(each group needs its own directory)"
            )
        self._checkpoint = None if checkpoint is None else checkpoint.decode()

    def _changes(self, rows: Iterable[tuple[bytes | None, bytes | None]]) -> rocksdict.WriteBatch:
        changes = self._batch(raw_mode=True)
        for key, value in rows:
            if key is None:
                continue
            if value is None:
                changes.delete(key)
            else:
                changes.put(key, value)
        return changes

    def _write(self, changes: rocksdict.WriteBatch, checkpoint: str | None) -> None:
        db = self._opened()
        try:
            if checkpoint is None:
                changes.delete(_CHECKPOINT, self._meta)
            else:
                changes.put(_CHECKPOINT, checkpoint.encode(), self._meta)
            db.write(changes)
        except Exception as error:
            raise self._failed(error) from error
        self._checkpoint = checkpoint

    def _last_key(self) -> bytes | None:
        found: Any = next(iter(self._opened().keys(backwards=True)), None)
        return found

    def _opened(self) -> rocksdict.Rdict:
        if self._db is None:
            raise StoreError(f"the store {self.path} is closed")
        return self._db

    def _let_go(self) -> None:
        db, self._db, self._meta = self._db, None, None
        if db is not None:
            try:
                db.close()
            except Exception as error:
                raise self._failed(error) from error

    def _set_aside(self, why: str) -> StoreCorrupt:
        self._let_go()
        return set_aside(self.path, why)

    def _failed(self, error: Exception, *, opening: bool = False) -> StoreError:
        """What an error of RocksDB means. rocksdict gives its text only, which begins with a kind.

        IO errors may pass: they are no reason to give up what is in the directory.
        """
        text = str(error)
        if "lock hold by current process" in text or "While lock file" in text:
            return StoreBusy(f"the store {self.path} fails: another process has it open")
        if text.startswith("Corruption"):
            return self._set_aside(f"is damaged ({text})")
        if opening and text.startswith("Invalid argument"):
            return self._set_aside(f"is not a table of this client ({text})")
        return StoreError(f"the store {self.path} fails: {text}")


_IDENTITY, _CHECKPOINT = _NAMES = (b"identity", b"checkpoint")
