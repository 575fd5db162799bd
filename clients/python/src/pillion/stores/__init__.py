"""Where tables live. MemoryStores and SqliteStores are here; any Store may be brought."""

from ._base import Store, Stores
from ._memory import MemoryStore, MemoryStores
from ._sqlite import SqliteStore, SqliteStores

__all__ = ["MemoryStore", "MemoryStores", "SqliteStore", "SqliteStores", "Store", "Stores"]
