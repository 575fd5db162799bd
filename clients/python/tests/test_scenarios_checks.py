"""What the simulated sidecar refuses: a worker that breaks a rule must not pass unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pillion import _json as json
from pillion import _messages as m
from pillion._encode import encode
from pillion._frames import RECORDS, WRITES
from pillion.testing._sim import moves
from pillion.testing._sim.epoch import Epoch
from pillion.testing._sim.fault import Fault
from pillion.testing._sim.kafka import Stored
from pillion.testing._sim.partitioner import murmur2, partition_of
from pillion.testing._sim.session import Session
from pillion.testing._sim.sidecar import Manner, Settings, Sidecar

LIMITS = m.Limits(max_frame=300, max_control=400, max_commit_bytes=500, max_outstanding_commits=2)


class Sink:
    """A link to nobody."""

    def __init__(self) -> None:
        self.posted: list[str | bytes] = []

    def post(self, data: str | bytes) -> None:
        self.posted.append(data)

    def close(self, code: int, reason: str) -> None: ...
    def cut(self) -> None: ...
    def change(self, manner: Manner) -> None: ...
    def ping(self, size: int) -> None: ...


class Wire:
    """A worker by hand, with a running task of three delivered records, the last before a gap."""

    def __init__(self) -> None:
        self.sink = Sink()
        self.sidecar = Sidecar(Settings(limits=LIMITS))
        self.session = Session(self.sidecar, self.sink)
        tables = [m.TableDeclaration("counts"), m.TableDeclaration("names", source_topic="names")]
        self.say(
            m.Hello(
                1, [1], m.Software("by hand", "1"), 1 << 20, m.Window(1000, 1000),
                sets=[m.SetDeclaration("words", ["words"], tables)], outputs=["changes"],
            )
        )  # fmt: skip
        self.session.greet()
        self.epoch = moves.assign(self.session, "words/0")

    def run(self) -> Wire:
        self.say(m.Opened(1, "words/0", 1, {}))
        moves.restored(self.session, self.epoch)
        self.say(m.Ready(2, "words/0", 1))
        source = self.epoch.sources["words"]
        records = [Stored(b"k", b"v", offset=offset) for offset in range(3)]
        moves.feed(self.session, source, records, 9)
        return self

    def say(self, message: m.Message) -> None:
        self.session.receive(json.encode(message))

    def write(self, stream: int, commit: int = 2, key: bytes | None = b"k", size: int = 1) -> None:
        self.session.receive(encode(WRITES, stream, 1, commit, 0, [key], [b"v" * size]))

    def commit(self, position: int = 9, id_: int = 2, topic: str = "words") -> None:
        self.say(m.Commit(id_, "words/0", 1, {topic: position}))

    @property
    def counts(self) -> int:
        return self.epoch.tables["counts"].id

    @property
    def changes(self) -> int:
        return self.epoch.outputs["changes"].id


def test_a_worker_that_does_all_right_is_answered() -> None:
    w = Wire().run()
    w.write(w.counts)
    w.write(w.changes)
    w.commit()
    kafka = w.sidecar.kafka
    assert kafka.logs["test-counts-changelog", 0].rows() == {b"k": b"v"}
    assert kafka.positions["words", 0] == 9
    assert [(each.topic, each.record.key) for each in kafka.outputs] == [("changes", b"k")]
    answer = json.decode(w.sink.posted[-1])
    assert isinstance(answer, m.Committed)
    assert kafka.points[answer.checkpoints["counts"]].position == 2  # behind the marker


def twice(w: Wire) -> None:
    w.commit()
    w.commit()


def mixed(w: Wire) -> None:
    w.write(w.counts, commit=2)
    w.write(w.counts, commit=3)


def revoked(w: Wire) -> Epoch:
    moves.revoke(w.session, w.epoch)
    return w.epoch


def released(w: Wire) -> None:
    epoch = revoked(w)
    w.sidecar.answers_held = True
    w.commit()
    w.say(m.Released(epoch.revoke, "words/0", 1))
    w.write(w.counts, commit=3)


def released_amid(w: Wire) -> None:
    epoch = revoked(w)
    w.write(w.counts)
    w.say(m.Released(epoch.revoke, "words/0", 1))


def three(w: Wire) -> None:
    w.sidecar.answers_held = True
    for id_ in (2, 3, 4):
        w.commit(id_=id_)


def without_credit(w: Wire) -> None:
    w.sidecar.credit_held = True
    w.session.granted = 10
    w.write(w.counts)
    w.write(w.counts)


def void(w: Wire) -> None:
    w.sidecar.answers_held = True
    w.write(w.counts)
    w.commit()
    moves.lose(w.session, w.epoch)
    w.session.answer(w.session.held[0], "committed")
    answer = json.decode(w.sink.posted[-1])
    assert isinstance(answer, m.Committed)
    again = moves.assign(w.session, "words/0")
    w.say(m.Opened(again.asked, "words/0", 2, dict(answer.checkpoints)))


def of_another(w: Wire) -> None:
    mark = w.sidecar.kafka.checkpoint("names", 0, 1)
    moves.lose(w.session, w.epoch)
    again = moves.assign(w.session, "words/0")
    w.say(m.Opened(again.asked, "words/0", 2, {"counts": mark}))


def not_wiped(w: Wire) -> None:
    moves.reset(w.session, w.epoch, w.epoch.tables["counts"])
    mark = w.sidecar.kafka.checkpoint("test-counts-changelog", 0, 1)
    w.say(m.Opened(next(iter(w.epoch.resets)), "words/0", 1, {"counts": mark}))


RULES: dict[str, tuple[Callable[[Wire], Any], str]] = {
    "hello twice": (lambda w: w.say(w.session.declared), "hello once"),
    "no JSON": (lambda w: w.session.receive("{"), "as in spec/schema"),
    "a large message": (lambda w: w.session.receive(" " * 401), "at most 400 bytes"),
    "a sidecar's message": (lambda w: w.say(m.Lost("words/0", 1, "fenced")), "a worker sends"),
    "opened twice": (lambda w: w.say(m.Opened(1, "words/0", 1, {})), "opened once"),
    "ready twice": (lambda w: w.say(m.Ready(2, "words/0", 1)), "ready once"),
    "released unasked": (lambda w: w.say(m.Released(3, "words/0", 1)), "released once"),
    "another task": (lambda w: w.say(m.Ready(2, "words/1", 1)), "were assigned"),
    "an error": (lambda w: w.say(m.Error("worker_failed", "no")), "no error"),
    "credit from nothing": (lambda w: w.say(m.Credit(99_999)), "at most"),
    "credit for a stranger": (lambda w: w.say(m.Credit(0, {77: 1})), "that were given"),
    "a broken frame": (lambda w: w.session.receive(b"frame"), "section 5"),
    "a frame of records": (
        lambda w: w.session.receive(encode(RECORDS, w.changes, 1, 2, 3, [b"k"], [b"v"])),
        "kind writes",
    ),
    "an unknown stream": (lambda w: w.write(99), "one on stream 99"),
    "another epoch": (
        lambda w: w.session.receive(encode(WRITES, w.counts, 5, 2, 0, [b"k"], [b"v"])),
        "epoch 1 on stream",
    ),
    "a source table": (lambda w: w.write(w.epoch.tables["names"].id), "writes to names"),
    "a null key": (lambda w: w.write(w.counts, key=None), "keys in a changelog"),
    "a large frame": (lambda w: w.write(w.counts, size=300), "frames of at most 300"),
    "a large commit": (
        lambda w: [w.write(w.counts, size=230), w.write(w.counts, size=230)],
        "commits of at most 500",
    ),
    "two commits mixed": (mixed, "the rest of commit 2"),
    "a commit twice": (twice, "an id above 2"),
    "three without an answer": (three, "at most 2 commits"),
    "a frame without credit": (without_credit, "no frame"),
    "behind released": (released, "in state released"),
    "released amid a commit": (released_amid, "behind the last commit"),
    "past what was delivered": (lambda w: w.commit(10), "never past"),
    "before a gap": (lambda w: w.commit(3), "passes over the gap"),
    "another topic": (lambda w: w.commit(topic="names"), "positions of words"),
    "a position back": (lambda w: [w.commit(2), w.commit(1, id_=3)], "from 2 on"),
    "a void checkpoint": (void, "epoch was over"),
    "another table's checkpoint": (of_another, "was given for"),
    "a store that was not wiped": (not_wiped, "opened with null"),
}


@pytest.mark.parametrize("rule", RULES)
def test_what_breaks_a_rule_is_a_fault(rule: str) -> None:
    wrong, why = RULES[rule]
    with pytest.raises(Fault, match=why):
        wrong(Wire().run())


def test_nothing_comes_before_ready() -> None:
    w = Wire()
    w.say(m.Opened(1, "words/0", 1, {}))
    with pytest.raises(Fault, match="in state restoring"):
        w.write(w.counts)
    with pytest.raises(Fault, match="in state restoring"):
        w.commit(0)


def test_what_comes_too_late_is_stale_and_credited() -> None:
    w = Wire().run()
    moves.lose(w.session, w.epoch)
    w.write(w.counts)
    w.commit()
    credit, stale = map(json.decode, w.sink.posted[-2:])
    assert isinstance(credit, m.Credit)
    assert isinstance(stale, m.Stale)
    assert w.sidecar.kafka.positions["words", 0] == 0


def test_keys_go_where_kafka_puts_them() -> None:
    """The values of Kafka's own UtilsTest.testMurmur2."""
    for key, hashed in {
        "21": -973932308,
        "foobar": -790332482,
        "a-little-bit-long-string": -985981536,
        "a-little-bit-longer-string": -1486304829,
        "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        "abc": 479470107,
    }.items():
        assert murmur2(key.encode()) == hashed & 0xFFFFFFFF
        assert partition_of(key.encode(), 7) == (hashed & 0x7FFFFFFF) % 7
    assert partition_of(None, 7) == 0
