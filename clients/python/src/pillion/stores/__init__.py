"""Where tables live. Memory, SQLite and RocksDB are here; any Store may be brought."""

from ._base import Store, Stores
from ._memory import MemoryStore, MemoryStores
from ._rocks import RocksStore, RocksStores
from ._sqlite import SqliteStore, SqliteStores

__all__ = [
    "MemoryStore",
    "MemoryStores",
    "RocksStore",
    "RocksStores",
    "SqliteStore",
    "SqliteStores",
    "Store",
    "Stores",
]
