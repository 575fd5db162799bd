"""Pillion: stateful stream processing over Kafka, next to a sidecar that does the group's work.

    from pillion import Batch, Context, Worker

    app = Worker(group="words")
    lines = app.topic("lines", key=str, value=str)
    counts = app.table("counts", key=str, value=int, default=int)

    @app.process(lines, tables=[counts])
    def count(batch: Batch[str, str], ctx: Context) -> None:
        for line in batch.values:
            for word in (line or "").split():
                ctx[counts][word] += 1

    if __name__ == "__main__":
        app.run()

See Worker for an app, pillion.serdes for keys and values, pillion.testing for tests without Kafka,
pillion.stores for where tables are kept, pillion.client for the protocol underneath.
"""

from . import serdes
from ._locate import Holder, Located, Shadow
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
    SerdeError,
    SidecarUnreachable,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    Superseded,
    UsageError,
    VersionMismatch,
)
from .serdes import Serde
from .stores import MemoryStores, RocksStores, SqliteStores, Store, Stores
from .worker import (
    Batch,
    Context,
    DeadLetter,
    Failure,
    GlobalTable,
    HandlerFailed,
    OnError,
    Output,
    Record,
    Skip,
    SourceTable,
    Stop,
    Table,
    Topic,
    Worker,
)

__all__ = [
    "Batch",
    "CommitAborted",
    "CommitError",
    "CommitRejected",
    "CommitStale",
    "CommitUnknown",
    "ConnectError",
    "ConnectionFatal",
    "ConnectionLost",
    "Context",
    "DeadLetter",
    "Drained",
    "Failure",
    "FrameError",
    "GlobalTable",
    "HandlerFailed",
    "HandshakeRefused",
    "Holder",
    "KafkaFatal",
    "LocateError",
    "Located",
    "MemoryStores",
    "MessageError",
    "OnError",
    "Output",
    "PillionError",
    "ProtocolError",
    "Record",
    "Refused",
    "RocksStores",
    "Serde",
    "SerdeError",
    "Shadow",
    "SidecarUnreachable",
    "Skip",
    "SourceTable",
    "SqliteStores",
    "Stop",
    "Store",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "Stores",
    "Superseded",
    "Table",
    "Topic",
    "UsageError",
    "VersionMismatch",
    "Worker",
    "serdes",
]
