"""The control messages of a worker: each is checked, and moves the epoch that it is about."""

from __future__ import annotations

from base64 import b64decode
from json import loads
from typing import TYPE_CHECKING, Any

from ... import _messages as m
from .epoch import Stream
from .fault import Fault
from .intake import Intake
from .partitioner import partition_of

if TYPE_CHECKING:
    from .session import Session


class Control:
    """What comes in on one connection beside frames."""

    def __init__(self, session: Session, intake: Intake) -> None:
        self._session = session
        self._intake = intake

    def take(self, message: m.Message, text: str) -> None:
        """Take one. Raises Fault."""
        session = self._session
        if isinstance(message, m.Hello) != (session.hello is None):
            raise Fault("hello once, and before everything else", text[:200])
        match message:
            case m.Hello():
                session.hello, session.last_request = message, message.id
                session.limit = message.credit.connection
            case m.Opened():
                self._opened(message)
            case m.Ready():
                self._ready(message)
            case m.Released():
                self._released(message)
            case m.Commit():
                self._intake.commit(message)
            case m.Credit():
                self._credit(message)
            case m.Progress():
                session.lively = True
            case m.Error():
                self._error(message, text)
            case m.Locate():
                self._locate(message)
            case _:
                raise Fault("messages that a worker sends", text[:200])

    def _opened(self, message: m.Opened) -> None:
        epoch = self._session.find(message)
        if epoch is None:
            return
        if wiped := epoch.resets.pop(message.re, None):
            if mark := message.checkpoints.get(wiped.name):
                raise Fault(f"opened with null for {wiped.name}", f"the checkpoint {mark!r}")
            return
        if message.re != epoch.asked or epoch.state not in ("opening", "revoking"):
            came = f"opened with re {message.re} for task {epoch.task} in state {epoch.state}"
            raise Fault("opened once for each assign and reset", came)
        for name, mark in message.checkpoints.items():
            if name not in epoch.tables:
                raise Fault("checkpoints of the task's tables", f"one of a table {name!r}")
            if mark:
                self._position(epoch.tables[name], mark)
        if epoch.state == "opening":
            epoch.state = "restoring"

    def _position(self, stream: Stream, mark: str) -> None:
        point = self._session.kafka.points.get(mark)
        where = (stream.topic, stream.epoch.partition)
        if point is None or (point.topic, point.partition) != where:
            want = f"a checkpoint that was given for {'/'.join(map(str, where))}, or null"
            raise Fault(want, repr(mark), "keep it unchanged, one for each task and table")
        if point.void:
            raise Fault(
                "a store without the rows of a commit whose epoch was over when its answer came",
                f"the checkpoint of that answer for {stream.name}",
            )
        stream.position = point.position

    def _ready(self, message: m.Ready) -> None:
        epoch = self._session.find(message)
        if epoch is None:
            return
        if message.re in epoch.overtaken or epoch.state in ("revoking", "failed"):
            epoch.unheard = True
            return
        if message.re != epoch.ready or epoch.state != "restored":
            came = f"ready with re {message.re} for task {epoch.task} in state {epoch.state}"
            raise Fault("ready once for each restored and promoted", came)
        epoch.ready, epoch.state, epoch.ran = 0, "running", True

    def _released(self, message: m.Released) -> None:
        epoch = self._session.find(message)
        if epoch is None:
            return
        if message.re != epoch.revoke or epoch.state not in ("revoking", "failed"):
            came = f"released with re {message.re} for task {epoch.task} in state {epoch.state}"
            raise Fault("released once for each revoke", came)
        self._intake.none_begun(epoch)
        epoch.state = "released"
        self._session.over_when_answered(epoch)

    def _credit(self, message: m.Credit) -> None:
        session = self._session
        most = session.declared.credit.connection + session.sent
        if message.connection > most:
            raise Fault(f"at most {most} for the connection", f"a limit of {message.connection}")
        session.limit = max(session.limit, message.connection)
        for number, limit in message.streams.items():
            stream = session.streams.get(number)
            if stream is None:
                raise Fault("streams that were given", f"credit for a stream {number}")
            if limit > (most := stream.window + stream.sent):
                raise Fault(f"at most {most} for stream {number}", f"a limit of {limit}")
            stream.limit = max(stream.limit, limit)
        session.pump()

    def _locate(self, message: m.Locate) -> None:
        session = self._session
        found = [
            each.name
            for each in session.declared.sets
            if message.set in ("", each.name)
            and (not message.table or message.table in (table.name for table in each.tables))
        ]
        if not found:
            why = f"there is no table {message.table!r}"
            session.say(m.Error("unknown_table", why, message.id))
            return
        partition = message.partition
        if partition is None:
            partition = partition_of(b64decode(message.key), session.sidecar.settings.partitions)
        task = f"{found[0]}/{partition}"
        session.say(
            m.Located(message.id, found[0], partition, task, stale=False, active=session.member)
        )

    def _error(self, message: m.Error, text: str) -> None:
        epoch = self._session.epochs.get(message.epoch)
        if epoch is not None and not epoch.living:
            return
        if self._session.sidecar.hears is None or not self._session.sidecar.hears(fields(text)):
            raise Fault("no error", text[:300], "the worker refuses what a sidecar may say here")


def fields(text: str) -> dict[str, Any]:
    """Read a message as it stands."""
    found: dict[str, Any] = loads(text)
    return found
