"""The streams of one connection. Pure.

INVARIANT: a stream belongs to one epoch for ever; a number is never used again in a connection.
"""

from __future__ import annotations

from ._codes import Code
from ._credit import Receiving, Sending
from ._frames import RECORDS, RESTORE, WRITES
from ._tasks import State, Stream, Task, TaskState
from .errors import ProtocolError


class Streams:
    """Every stream that was ever given, also of epochs that are over."""

    def __init__(self, receiving: Receiving) -> None:
        self.by_id: dict[int, Stream] = {}
        self.sending: Sending | None = None  # from welcome on
        self._receiving = receiving

    def open(
        self, task: Task, state: State, request: int, was: TaskState | None = None
    ) -> TaskState:
        """Begin an epoch with its streams; was is the epoch that it goes on from."""
        made = TaskState(task, state, request)
        for source in task.sources.values():
            at = source.position
            self.add(made, source.stream, source.topic, source.topic, RECORDS, at)
        for table in task.tables.values():
            # What others write goes on from its position; our changelog moved by our own commits.
            old = was.table(table.name) if was and table.kind != "changelog" else None
            at = old.next if old else None
            self.add(made, table.stream, table.name, table.topic, RESTORE, at)
        for output in task.outputs.values():
            self.add(made, output.stream, output.topic, output.topic, WRITES, None)
        return made

    def add(
        self, of: TaskState, id_: int, name: str, topic: str, kind: int, next_: int | None
    ) -> Stream:
        """Take a new stream. Raises ProtocolError when its number was given before."""
        if id_ in self.by_id:
            raise ProtocolError(f"stream {id_} was given twice", Code.BAD_MESSAGE)
        stream = Stream(id_, of, name, topic, kind, next=next_)
        self.by_id[id_] = stream
        of.streams.append(stream)
        self._receiving.open(stream)
        if self.sending is not None:
            self.sending.open(stream)
        return stream
