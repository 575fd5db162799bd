"""The protocol core without I/O: what the transcripts do not show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion import _json as codec
from pillion import _messages as m
from pillion import events
from pillion._encode import encode
from pillion._frames import RECORDS, RESTORE, WRITES
from pillion._protocol import Protocol
from pillion._queue import EventQueue
from pillion._tasks import TRANSITIONS, On, State, Task
from pillion.client import CommitStale, PillionError, ProtocolError, UsageError
from pillion.errors import ConnectionLost

WELCOME = m.Welcome(
    1, 1, "c1", m.Software("p", "1"), "g", "at_least_once",
    m.Limits(1 << 20, 1 << 20, 1 << 20, 2), m.Window(1 << 20, 1 << 20), m.Deadlines(1, 1, 1),
)  # fmt: skip
ASSIGN = m.Assign(
    1, "w/0", "w", 0, "active", 1,
    [m.SourceStream("w", 1, 5)],
    [m.TableStream("t", "t-log", "changelog", 2), m.TableStream("s", "s-topic", "source", 3)],
    [m.OutputStream("o", 4)],
)  # fmt: skip


class Core:
    """A core with a hand on each side."""

    def __init__(self, window: int = 1000) -> None:
        self.queue = EventQueue()
        hello = m.Hello(
            1, [1], m.Software("t", "1"), 1 << 20, m.Window(window, window), outputs=["o"]
        )
        self.protocol = Protocol(hello, self.queue)
        assert self.sent() == [hello]
        self.send(WELCOME)

    def send(self, *messages: m.Message) -> None:
        for message in messages:
            self.protocol.receive(codec.encode(message))

    def frame(self, kind: int, stream: int, base: int, count: int = 1, epoch: int = 1) -> int:
        rows: list[bytes | None] = [b"%d" % i for i in range(count)]
        data = encode(kind, stream, epoch, base, base + count, rows, rows)
        self.protocol.receive(data)
        return len(data)

    def events(self) -> list[events.Event]:
        taken: list[events.Event] = []
        while event := self.protocol.take():
            taken.append(event)
        return taken

    def sent(self) -> list[m.Message | bytes | None]:
        made: list[m.Message | bytes | None] = []
        while (data := self.protocol.next_outgoing()) is not None:
            made.append(data if isinstance(data, bytes) else codec.decode(data))
        return made

    def running(self) -> Task:
        self.send(ASSIGN)
        (assigned,) = self.events()
        assert isinstance(assigned, events.Assigned)
        self.protocol.opened(assigned.task, {"t": None, "s": None})
        self.send(m.Restored(2, "w/0", 1))
        self.events()
        self.protocol.ready(assigned.task)
        self.sent()
        return assigned.task

    def errors(self) -> list[tuple[int, str]]:
        return [(e.re, e.code) for e in self.sent() if isinstance(e, m.Error)]


def test_every_state_and_event_is_in_the_table() -> None:
    assert TRANSITIONS.keys() == set(State)
    reached = {after for row in TRANSITIONS.values() for after in row.values()}
    assert reached | {State.OPENING, State.PROMOTED} == set(State)
    assert {on for row in TRANSITIONS.values() for on in row} == set(On)
    assert TRANSITIONS[State.ENDED] == {}
    for state, row in TRANSITIONS.items():
        if state is not State.ENDED:
            assert row[On.LOST] is State.ENDED  # INVARIANT: lost fences in every state


@pytest.mark.parametrize(
    "message",
    [
        ASSIGN,
        m.Restored(9, "w/0", 1),
        m.Hello(9, [1], m.Software("x", "1"), 1, m.Window(1, 1)),
    ],
)
def test_before_welcome_nothing_is_allowed(message: m.Message) -> None:
    core = Protocol(m.Hello(1, [1], m.Software("x", "1"), 1, m.Window(1, 1)), EventQueue())
    core.next_outgoing()
    core.receive(codec.encode(message))
    answer = codec.decode(str(core.next_outgoing()))
    assert isinstance(answer, m.Error)
    assert (answer.re, answer.code) == (codec.request_id(message), "not_allowed")


def test_a_welcome_that_does_not_fit() -> None:
    for version, re in ((2, 1), (1, 7)):
        core = Protocol(m.Hello(1, [1], m.Software("x", "1"), 1, m.Window(1, 1)), EventQueue())
        text = codec.encode(WELCOME).replace('"version":1,', f'"version":{version},', 1)
        with pytest.raises(ProtocolError):
            core.receive(text.replace('"re":1', f'"re":{re}'))


def test_what_the_table_does_not_know_changes_nothing() -> None:
    core = Core()
    core.send(ASSIGN)
    core.send(m.Restored(2, "w/0", 1), m.Promoted(3, "w/0", 2), m.Restored(4, "w/0", 9))
    core.send(m.Assign(5, "w/0", "w", 0, "active", 2), m.Restored(6, "w/1", 1))
    assert core.errors() == [
        (2, "not_allowed"), (3, "not_allowed"), (5, "not_allowed"),
    ]  # fmt: skip
    assert [type(event) for event in core.events()] == [events.Assigned]
    core.send(m.Lost("w/7", 1, "fenced"))  # merely late
    assert core.errors() == []


def test_data_before_its_time_is_refused_and_credited() -> None:
    core = Core()
    core.send(ASSIGN)
    core.events()
    size = core.frame(RESTORE, 2, 0) + core.frame(RECORDS, 1, 5) + core.frame(RESTORE, 99, 0)
    sent = core.sent()
    assert sent[0] == m.Credit(1000 + size, {1: 1000 + size // 3, 2: 1000 + size // 3})
    assert [(e.code, e.stream) for e in sent if isinstance(e, m.Error)] == [
        ("not_allowed", 2), ("not_allowed", 1), ("unknown_stream", 99),
    ]  # fmt: skip
    assert core.events() == []


def test_kinds_are_not_mixed() -> None:
    for kind, stream in ((RECORDS, 2), (RESTORE, 1), (RESTORE, 4)):
        core = Core()
        core.running()
        with pytest.raises(ProtocolError):
            core.frame(kind, stream, 5)
    core = Core()
    core.running()
    with pytest.raises(ProtocolError):
        core.protocol.receive(encode(WRITES, 2, 1, 1, 0, [b""], [b""]))


def test_records_begin_at_the_position() -> None:
    core = Core()
    core.running()
    core.frame(RECORDS, 1, 6)
    assert core.errors() == [(0, "offset_mismatch")]
    core.frame(RECORDS, 1, 5)  # too late: the stream is given up
    assert core.errors() == []
    assert core.events() == []


def test_a_stale_frame_is_credited_and_dropped() -> None:
    core = Core()
    task = core.running()
    core.send(m.Lost("w/0", 1, "fenced"))
    size = core.frame(RECORDS, 1, 5)
    assert core.sent() == [m.Credit(1000 + size)]
    (lost,) = core.events()
    assert isinstance(lost, events.Lost)
    core.protocol.ready(task)
    core.protocol.opened(task, {})
    core.protocol.release(task)
    core.protocol.fail(task, "x", "y")
    assert core.sent() == []


def test_revoking_drops_what_is_queued_and_what_still_comes() -> None:
    core = Core()
    core.running()
    core.frame(RECORDS, 1, 5)
    core.frame(RESTORE, 3, 0)
    core.send(m.Revoke(3, "w/0", 1, 10, "rebalance"))
    core.frame(RECORDS, 1, 6)
    assert [type(event) for event in core.events()] == [events.Revoking]
    assert core.errors() == []


def test_other_tasks_frames_wait_behind_what_overtakes() -> None:
    core = Core()
    core.running()
    core.send(
        m.Assign(7, "w/1", "w", 1, "standby", 1, [], [m.TableStream("t", "l", "changelog", 9)])
    )
    core.frame(RECORDS, 1, 5)
    core.send(m.Lost("w/1", 1, "fenced"), m.Lost("w/0", 1, "fenced"))
    kinds = [(type(e).__name__, getattr(e, "task").name) for e in core.events()]  # noqa: B009
    assert kinds == [("Assigned", "w/1"), ("Lost", "w/1"), ("Lost", "w/0")]


def test_credit_goes_out_by_quarters_and_when_idle() -> None:
    core = Core(window=10_000)
    core.running()
    size = core.frame(RECORDS, 1, 5)
    core.events()
    assert core.sent() == []
    assert core.protocol.idle()
    assert core.sent() == [m.Credit(10_000 + size, {1: 10_000 + size})]
    assert not core.protocol.idle()
    for i in range(50):
        core.frame(RECORDS, 1, 6 + i)
    core.events()
    (credit,) = core.sent()
    assert isinstance(credit, m.Credit)


def test_opened_names_every_table() -> None:
    core = Core()
    core.send(ASSIGN)
    (assigned,) = core.events()
    assert isinstance(assigned, events.Assigned)
    for wrong in ({"t": None}, {"t": None, "s": None, "x": None}):
        with pytest.raises(UsageError, match=r"name all of \['s', 't'\]"):
            core.protocol.opened(assigned.task, wrong)
    with pytest.raises(UsageError, match="answers Revoking"):
        core.protocol.release(assigned.task)


def test_a_reset_may_bring_a_new_stream() -> None:
    core = Core()
    task = core.running()
    core.send(m.Reset(5, "w/0", 1, "s", 12, 40, "recreated"), m.Reset(6, "w/0", 1, "x", 13, 0, "y"))
    assert core.errors() == [(6, "bad_message")]
    (reset,) = core.events()
    assert isinstance(reset, events.Reset)
    core.protocol.opened(task, {"s": None})
    core.frame(RESTORE, 3, 0)  # the old stream
    core.frame(RESTORE, 12, 40)
    (restore,) = core.events()
    assert isinstance(restore, events.Restore)
    assert restore.batch.base_offset == 40


def test_records_wait_from_a_reset_until_the_next_restored() -> None:
    core = Core()
    task = core.running()
    core.frame(RECORDS, 1, 5)
    core.frame(RECORDS, 1, 6)
    taken = core.protocol.take()
    core.send(m.Reset(5, "w/0", 1, "s", 3, 40, "recreated"))
    assert [type(event) for event in core.events()] == [events.Reset]
    core.protocol.opened(task, {"s": None})
    ended: list[object] = []
    core.protocol.commit(task, {"w": 6}, {}, {}, ended.append)  # what was taken before
    assert isinstance(taken, events.Records)
    core.frame(RESTORE, 3, 40)
    core.send(m.Restored(6, "w/0", 1))
    assert [type(event) for event in core.events()] == [events.Restore, events.Restored]
    core.protocol.ready(task)
    core.frame(RECORDS, 1, 7)
    offsets = [e.batch.base_offset for e in core.events() if isinstance(e, events.Records)]
    assert offsets == [6, 7]
    core.send(m.Restored(7, "w/0", 1))  # unasked
    assert core.errors() == [(7, "not_allowed")]


def test_a_restored_that_a_reset_has_overtaken_makes_nothing_whole() -> None:
    core = Core()
    task = core.running()
    core.send(m.Reset(5, "w/0", 1, "s", 3, 40, "recreated"))
    core.events()
    core.protocol.opened(task, {"s": None})
    core.frame(RESTORE, 3, 40)
    core.send(m.Restored(6, "w/0", 1), m.Reset(7, "w/0", 1, "s", 3, 40, "recreated"))
    assert isinstance(core.protocol.take(), events.Restored)  # and its rows are gone
    assert not core.protocol.whole(task)
    core.events()
    core.protocol.opened(task, {"s": None})
    core.send(m.Restored(8, "w/0", 1))
    core.events()
    assert core.protocol.whole(task)


def test_a_reset_of_a_global_table_holds_the_records_of_all_tasks() -> None:
    core = Core()
    task = core.running()
    table = m.TableStream("g", "g-topic", "global", 50)
    core.send(m.Assign(7, "g/0", "g", 0, "global", 1, [], [table]))
    (assigned,) = core.events()
    assert isinstance(assigned, events.Assigned)
    core.protocol.opened(assigned.task, {"g": None})
    core.send(m.Restored(8, "g/0", 1))
    core.events()
    core.protocol.ready(assigned.task)
    for i in range(2):
        core.frame(RECORDS, 1, 5 + i)
        core.send(m.Reset(9, "g/0", 1, "g", 50, 0, "truncated"))
        assert [type(event) for event in core.events()] == [events.Reset]
        core.protocol.opened(assigned.task, {"g": None})
        if i:
            core.send(m.Lost("w/0", 1, "fenced"))  # held ones go with their task
            assert [type(event) for event in core.events()] == [events.Lost]
        core.send(m.Restored(10, "g/0", 1))
        core.events()
        core.protocol.ready(assigned.task)
        kinds = [type(event) for event in core.events()]
        assert kinds == ([] if i else [events.Records])
    core.protocol.ready(task)


def test_a_restored_before_the_one_before_was_answered() -> None:
    core = Core()
    core.send(ASSIGN)
    (assigned,) = core.events()
    assert isinstance(assigned, events.Assigned)
    core.protocol.opened(assigned.task, {"t": None, "s": None})
    core.send(
        m.Restored(2, "w/0", 1), m.Reset(3, "w/0", 1, "s", 3, 0, "x"), m.Restored(4, "w/0", 1)
    )
    core.protocol.opened(assigned.task, {"s": None})
    core.protocol.ready(assigned.task)
    core.protocol.ready(assigned.task)
    core.protocol.ready(assigned.task)
    answers = [(x.TYPE, x.re) for x in core.sent() if isinstance(x, m.Ready | m.Opened)]
    assert answers == [("opened", 1), ("opened", 3), ("ready", 2), ("ready", 4)]


def test_a_demoted_task_commits_nothing() -> None:
    core = Core()
    task = core.running()
    core.frame(RECORDS, 1, 5)
    core.send(m.Demoted("w/0", 2, [m.TableStream("t", "l", "changelog", 20)]))
    (demoted,) = core.events()
    assert isinstance(demoted, events.Demoted)
    ended: list[object] = []
    core.protocol.commit(task, {"w": 6}, {}, {}, ended.append)
    assert isinstance(ended[0], CommitStale)
    core.frame(RESTORE, 20, 77, epoch=2)
    (restore,) = core.events()
    assert isinstance(restore, events.Restore)
    assert restore.task is demoted.task


def test_rows_before_demoted_are_still_applied() -> None:
    core = Core()
    core.running()
    core.frame(RECORDS, 1, 5)
    core.frame(RESTORE, 3, 7)
    core.send(m.Demoted("w/0", 2, [m.TableStream("s", "up", "source", 20)]))
    restore, demoted = core.events()
    assert isinstance(restore, events.Restore)
    assert not restore.batch.stale  # what comes on the new stream begins behind it
    assert isinstance(demoted, events.Demoted)


def test_released_waits_for_commits_and_falls_with_them() -> None:
    core = Core()
    task = core.running()
    ended: list[object] = []
    core.protocol.commit(task, {"w": 6}, {"t": [(b"a", b"1")]}, {}, ended.append)
    core.send(m.Revoke(3, "w/0", 1, 10, "rebalance"))
    core.events()
    core.protocol.release(task)
    core.protocol.progress()
    kinds = [x.TYPE if isinstance(x, m.Message) else "frame" for x in core.sent()]
    assert kinds == ["progress", "frame", "commit", "released"]
    core.send(m.Committed(2, "w/0", 1, {"t": "v1:1"}))
    assert [type(each).__name__ for each in ended] == ["Committed"]
    core = Core()
    task = core.running()
    core.protocol.commit(task, {"w": 6}, {}, {}, ended.append)
    core.send(m.Revoke(3, "w/0", 1, 10, "rebalance"))
    core.protocol.release(task)
    core.send(m.Lost("w/0", 1, "revoke_timeout"))
    assert core.sent() == []
    assert isinstance(ended[-1], CommitStale)


def test_closing_loses_every_task_once() -> None:
    core = Core()
    core.running()
    core.frame(RECORDS, 1, 5)
    core.protocol.closed(ConnectionLost("gone"), "connection_lost")
    assert [type(event) for event in core.events()] == [events.Lost]
    core.protocol.closed(ConnectionLost("gone"), "connection_lost")
    assert core.events() == []


MESSAGES: list[m.Message] = [
    ASSIGN, m.Assign(2, "w/1", "w", 1, "standby", 1, [], [m.TableStream("t", "l", "changelog", 9)]),
    m.Restored(3, "w/0", 1), m.Restored(3, "w/1", 1), m.Revoke(4, "w/0", 1, 1, "drain"),
    m.Lost("w/0", 1, "fenced"), m.Lost("w/1", 1, "fenced"), m.Reset(5, "w/0", 1, "t", 2, 0, "x"),
    m.Promoted(6, "w/1", 2, [m.SourceStream("w", 30, 0)], [m.TableStream("t", "l", "source", 31)]),
    m.Demoted("w/0", 2, [m.TableStream("t", "l", "changelog", 32)]), m.Committed(2, "w/0", 1),
    m.Stale(2, "w/0", 1), m.Error("internal", "x", re=2), m.Credit(1 << 40, {2: 1 << 40}),
    m.Waiting("ok"), m.Restoring("w/0", 1, "t", 1, 1, 1, 1, -1), WELCOME,
]  # fmt: skip


class Fuzz:
    """Whatever comes, and whatever user code does, the core keeps its promises."""

    def __init__(self) -> None:
        self.core = Core(window=1 << 20)
        self.lost: set[Task] = set()
        self.tasks: list[Task] = []
        self.pending = 0

    def take(self) -> None:
        event = self.core.protocol.take()
        if event is None or isinstance(event, events.Waiting):
            return
        assert event.task not in self.lost, "INVARIANT: nothing follows lost"
        if isinstance(event, events.Lost):
            self.lost.add(event.task)
        if isinstance(event, events.Restore | events.Records):
            assert isinstance(event, events.Restore) or not event.batch.stale
        self.tasks.append(event.task)

    def act(self, what: int) -> None:
        protocol = self.core.protocol
        task = self.tasks[what % len(self.tasks)] if self.tasks else None
        if what % 6 == 0 or task is None:
            self.take()
        elif what % 6 == 1:
            protocol.opened(task, dict.fromkeys(task.tables))
        elif what % 6 == 2:
            protocol.ready(task)
        elif what % 6 == 3:
            protocol.release(task)
        elif what % 6 == 4:
            self.pending += 1
            try:
                protocol.commit(task, {"w": 6}, {"t": [(b"a", b"1")]}, {}, self.done)
            except PillionError:
                self.pending -= 1
        else:
            self.core.sent()

    def done(self, outcome: object) -> None:
        self.pending -= 1
        assert self.pending >= 0

    def end(self) -> None:
        self.core.protocol.closed(ConnectionLost("gone"), "connection_lost")
        assert self.pending == 0, "INVARIANT: every commit has an outcome"
        while len(self.core.queue):
            self.take()


STEP = (
    st.sampled_from(MESSAGES)
    | st.tuples(st.sampled_from([RECORDS, RESTORE]), st.integers(1, 9), st.integers(0, 7))
    | st.integers(0, 600)
)


@settings(max_examples=300)
@given(st.lists(STEP, max_size=60))
def test_any_conversation_ends_in_documented_errors(steps: list[Any]) -> None:
    fuzz = Fuzz()
    try:
        for step in steps:
            if isinstance(step, m.Message):
                fuzz.core.send(step)
            elif isinstance(step, tuple):
                fuzz.core.frame(*step)  # type: ignore[arg-type]
            else:
                fuzz.act(step)
    except PillionError:
        pass
    fuzz.end()


@given(st.dictionaries(st.text(max_size=6), st.text(max_size=6)))
def test_messages_with_unknown_fields_are_read(extra: dict[str, str]) -> None:
    core = Core()
    body = json.loads(codec.encode(ASSIGN))
    core.protocol.receive(json.dumps({**{f"zz_{k}": v for k, v in extra.items()}, **body}))
    assert [type(event) for event in core.events()] == [events.Assigned]
