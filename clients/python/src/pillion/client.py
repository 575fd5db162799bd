"""The protocol-level client: Kafka records, tables of bytes and commits over one local socket.

    async with client.connect(sets=[client.Set("words", ["words"], ["counts"])]) as conn:
        async for event in conn:
            ...

See connect() for the connection, Tables for stores that keep themselves right, run() for a whole
program, pillion.testing for a sidecar in tests.
"""

from ._batch import Batch, Row
from ._commits import Committed
from ._connect import connect
from ._connection import Connection
from ._declare import Global, Set, SourceTable, Table
from ._encode import Record
from ._locate import Holder, Located, Shadow
from ._run import run
from ._tables import Tables, TableView
from ._tasks import Task
from .errors import (
    CommitAborted,
    CommitError,
    CommitRejected,
    CommitStale,
    CommitUnknown,
    ConnectError,
    ConnectionFatal,
    ConnectionLost,
    Drained,
    FrameError,
    HandshakeRefused,
    KafkaFatal,
    LocateError,
    MessageError,
    PillionError,
    ProtocolError,
    Refused,
    SidecarUnreachable,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    Superseded,
    UsageError,
    VersionMismatch,
)
from .events import (
    Assigned,
    Demoted,
    Event,
    Lost,
    Promoted,
    Records,
    Reset,
    Restore,
    Restored,
    Restoring,
    Revoking,
    Waiting,
)
from .stores import (
    MemoryStore,
    MemoryStores,
    RocksStore,
    RocksStores,
    SqliteStore,
    SqliteStores,
    Store,
    Stores,
)

__all__ = [
    "Assigned",
    "Batch",
    "CommitAborted",
    "CommitError",
    "CommitRejected",
    "CommitStale",
    "CommitUnknown",
    "Committed",
    "ConnectError",
    "Connection",
    "ConnectionFatal",
    "ConnectionLost",
    "Demoted",
    "Drained",
    "Event",
    "FrameError",
    "Global",
    "HandshakeRefused",
    "Holder",
    "KafkaFatal",
    "LocateError",
    "Located",
    "Lost",
    "MemoryStore",
    "MemoryStores",
    "MessageError",
    "PillionError",
    "Promoted",
    "ProtocolError",
    "Record",
    "Records",
    "Refused",
    "Reset",
    "Restore",
    "Restored",
    "Restoring",
    "Revoking",
    "RocksStore",
    "RocksStores",
    "Row",
    "Set",
    "Shadow",
    "SidecarUnreachable",
    "SourceTable",
    "SqliteStore",
    "SqliteStores",
    "Store",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "Stores",
    "Superseded",
    "Table",
    "TableView",
    "Tables",
    "Task",
    "UsageError",
    "VersionMismatch",
    "Waiting",
    "connect",
    "run",
]
