"""The commits of a worker: frames put together, checked, landed and answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import _messages as m
from ..._batch import Batch
from ..._frames import WRITES, Frame
from ..._tasks import Task
from .epoch import Commit, Epoch, Stream
from .fault import Fault
from .kafka import Stored, Written
from .sidecar import Fate

if TYPE_CHECKING:
    from .session import Session


class Intake:
    """What comes in on one connection."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._settings = session.sidecar.settings
        self._sending: Commit | None = None

    def frame(self, frame: Frame, stream: Stream) -> None:
        """Take a frame: a part of a commit."""
        size, epoch = len(frame.data), stream.epoch
        if frame.kind != WRITES:
            raise Fault("frames of kind writes", f"one of kind {frame.kind}")
        if size > (most := self._settings.limits.max_frame):
            raise Fault(f"frames of at most {most} bytes", f"one of {size}")
        self._spend(stream, size)
        early = epoch.unheard and not epoch.ran
        if not epoch.living or epoch.state == "failed" or early:
            self.refund(stream)
            return
        if epoch.state == "released" or not epoch.ran:
            want = f"no writes of task {epoch.task} in state {epoch.state}"
            raise Fault(want, f"a frame for {stream.name}", "they come between ready and released")
        self._collect(frame, epoch)
        if stream.kind == "changelog" and None in (record.key for record in records_of(frame)):
            raise Fault("keys in a changelog", f"a record without a key for {stream.name}")
        self.refund(stream)

    def refund(self, stream: Stream) -> None:
        """Give new credit for what came, unless it is held."""
        session, credit = self._session, self._settings.credit
        if session.sidecar.credit_held:
            session.sidecar.owed.append(stream)
            return
        session.granted = session.received + credit.connection
        stream.granted = stream.received + credit.stream
        session.say(m.Credit(session.granted, {stream.id: stream.granted}))

    def commit(self, message: m.Commit) -> None:
        """Take the end of a commit, and answer it unless answers are held."""
        session = self._session
        self._later(message.id, f"commit {message.id}")
        session.last_request = message.id
        epoch = session.find(message)
        commit = self._sending
        if commit is not None and commit.id == message.id:
            self._sending = None
        else:
            self._not_mixed(message.id)
            commit = None
        if epoch is None:
            session.say(m.Stale(message.id, message.task, message.epoch))
            return
        commit = commit or Commit(message.id, epoch)
        if epoch.state == "failed":
            why = "an earlier commit of the epoch failed"
            session.say(m.Aborted(commit.id, message.task, epoch.number, "commit_failed", why))
            return
        if epoch.unheard and not epoch.ran:
            why = "no commit is possible before the records of the task flow"
            session.say(m.Error("not_allowed", why, commit.id, epoch.wire_name, epoch.number))
            return
        if epoch.state == "released" or not epoch.ran:
            want = f"no commit of task {epoch.task} in state {epoch.state}"
            raise Fault(want, f"commit {commit.id}", "they come between ready and released")
        self._whole(commit, message.source_next)

    def answer(self, commit: Commit, with_: str, code: str, *, lands: bool) -> None:
        """End a commit."""
        session, epoch = self._session, commit.epoch
        if commit in session.held:
            session.held.remove(commit)
        points = self._land(commit, void=not epoch.living) if lands else {}
        of, why = (commit.id, epoch.wire_name, epoch.number), "the test wants it so"
        answers: dict[str, m.Message] = {
            "committed": m.Committed(*of, points),
            "aborted": m.Aborted(*of, code, why),
            "unknown": m.Unknown(*of, code, why),
            "stale": m.Stale(*of),
            "error": m.Error(code, why, commit.id, epoch.wire_name, epoch.number),
        }
        if with_ != "committed" and epoch.living and epoch.state != "released":
            epoch.state = "failed"
        session.over_when_answered(epoch)
        session.say(answers[with_])

    def none_begun(self, epoch: Epoch) -> None:
        """See that no commit of the epoch is in the middle."""
        if self._sending is not None and self._sending.epoch is epoch:
            raise Fault("released behind the last commit", "released amid the frames of a commit")

    def _spend(self, stream: Stream, size: int) -> None:
        session = self._session
        came, hint = f"one of {size} bytes", "it waits until the sent bytes are below both limits"
        if session.received >= session.granted:
            want = f"no frame: {session.received} bytes were sent, the limit is {session.granted}"
            raise Fault(want, came, hint)
        if stream.epoch.living and stream.received >= stream.granted:
            want = f"no frame for {stream.name}: {stream.received} bytes of {stream.granted}"
            raise Fault(want, came, hint)
        session.received, stream.received = session.received + size, stream.received + size

    def _collect(self, frame: Frame, epoch: Epoch) -> None:
        self._not_mixed(frame.base)
        if self._sending is None:
            self._later(frame.base, f"a frame of commit {frame.base}")
            self._sending = Commit(frame.base, epoch)
        commit = self._sending
        if commit.epoch is not epoch:
            came = f"frames of tasks {commit.epoch.task} and {epoch.task}"
            raise Fault("one task in a commit", came)
        commit.frames.append(frame)
        size = sum(len(each.data) for each in commit.frames)
        if size > (most := self._settings.limits.max_commit_bytes):
            raise Fault(f"commits of at most {most} bytes", f"{size} bytes")

    def _not_mixed(self, id_: int) -> None:
        """Frames of two commits never mix; the rest of a failed one need not come."""
        sending = self._sending
        if sending is None or sending.id == id_:
            return
        if sending.epoch.living and sending.epoch.state != "failed":
            raise Fault(f"the rest of commit {sending.id}", f"a part of commit {id_}")
        self._sending = None

    def _later(self, id_: int, what: str) -> None:
        last = self._session.last_request
        if id_ <= last:
            raise Fault(f"an id above {last}", what, "a commit is never sent again")

    def _whole(self, commit: Commit, source_next: dict[str, int]) -> None:
        session, epoch, commit.next = self._session, commit.epoch, source_next
        most = self._settings.limits.max_outstanding_commits
        if session.waiting(epoch) >= most:
            raise Fault(f"at most {most} commits of {epoch.task} without an answer", "one more")
        for topic, position in source_next.items():
            self._move(epoch, topic, position)
        session.held.append(commit)
        if not session.sidecar.answers_held:
            fates = session.sidecar.fates
            with_, code, lands = fates.popleft() if fates else Fate("committed", "", lands=True)
            self.answer(commit, with_, code, lands=lands)

    def _move(self, epoch: Epoch, topic: str, position: int) -> None:
        source = epoch.sources.get(topic)
        if source is None:
            raise Fault(f"positions of {', '.join(epoch.sources)}", f"one of {topic}")
        if position < epoch.next[topic]:
            raise Fault(f"a position from {epoch.next[topic]} on", f"{position}", "none goes back")
        allowed = source.ends.get(position)
        if allowed is None:
            want = "a position between delivered records, or a frame's next offset"
            raise Fault(want, f"{position}", "never past what was delivered")
        if not allowed:
            want = "the frame's next offset, which passes over the gap behind its last record"
            raise Fault(want, f"the last record's offset + 1: {position}")
        epoch.next[topic] = position

    def _land(self, commit: Commit, *, void: bool) -> dict[str, str]:
        """Put a commit into Kafka and give the new checkpoints."""
        kafka, epoch = self._session.kafka, commit.epoch
        points: dict[str, str] = {}
        for frame in commit.frames:
            stream = self._session.streams[frame.stream]
            records = records_of(frame)
            if stream.kind == "output":
                kafka.outputs += (Written(epoch.task, stream.topic, each) for each in records)
                continue
            log = kafka.logs[stream.topic, epoch.partition]
            log.append(records)
            log.end += 1  # a marker, as behind a transaction
            stream.position = log.end
            points[stream.name] = kafka.checkpoint(
                stream.topic, epoch.partition, log.end, void=void
            )
        for topic, position in commit.next.items():
            at = (topic, epoch.partition)
            kafka.positions[at] = max(kafka.positions[at], position)
        return points


def records_of(frame: Frame) -> list[Stored]:
    """Take a writes frame apart."""
    batch = Batch(frame, Task("", "", 0, "active", frame.epoch, {}, {}, {}), "", "")
    stamps = batch.timestamps
    return [
        Stored(key, value, batch.headers(i), stamps[i] if stamps else None)
        for i, (key, value) in enumerate(batch.items())
    ]
