"""Every transcript of the specification, played against the protocol core."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pillion import _frames, _json, events
from pillion import _messages as m
from pillion._closing import verdict
from pillion._commits import Committed, Outcome
from pillion._locate import Answer
from pillion._protocol import Protocol
from pillion._queue import EventQueue
from pillion._tasks import Task
from pillion.client import Located, LocateError, Record
from pillion.errors import CommitStale, ConnectionLost, PillionError
from pillion.stores import MemoryStore
from spec import SPEC, raw
from test_vectors import decoded, wanted, without_empty

FILES = sorted((SPEC / "transcripts").glob("*.jsonl"))
Line = dict[str, Any]
HELLO = ["group", "sets", "sources", "tables", "globals", "outputs", "replicas", "address"]


def test_there_are_transcripts() -> None:
    assert len(FILES) >= 15


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if path.stem == "credit":  # its frames hold one record each
        monkeypatch.setattr(_frames, "DEFAULT_TARGET", 1)
    Player(lines).play()


class Player:
    """The application and the judge of one transcript."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        self.at = 0
        self.queue = EventQueue()
        self.core: Protocol | None = None
        self.tasks: dict[str, Task] = {}
        self.stores: dict[tuple[str, str], MemoryStore] = {}
        self.asked: dict[int, events.Event] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.commits: set[int] = set()
        self.answers: dict[int, list[Answer]] = {}  # of questions, by request
        self.delivered: dict[str, dict[str, int]] = {}

    def play(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            self.at += 1
            if "connect" in line:
                self.connect()
            elif "given" in line:
                self.give(line["given"])
            elif "store" in line:
                self.check_store(line)
            elif "delivered" in line:
                assert self.delivered.get(line["delivered"], {}) == line["next"]
            elif line.get("from") == "sidecar":
                self.from_sidecar(line)
            elif line.get("from") == "worker":
                self.from_worker(line)
        assert self.core is not None
        assert self.sent() is None, "the core says more than the transcript"

    def connect(self) -> None:
        if self.core is not None:
            self.core.closed(ConnectionLost("gone"), "connection_lost")
            self.take_events()
        self.commits.clear()
        self.outcomes.clear()
        hello = _json.decode(json.dumps(self.lines[self.at]["message"]))
        assert isinstance(hello, m.Hello)
        self.core = Protocol(hello, self.queue)

    # -- the sidecar's lines --------------------------------------------------------------------

    def from_sidecar(self, line: Line) -> None:
        core = self.core
        assert core is not None
        if "close" in line:
            end = verdict(line["close"], "", core.last_error, "ws://x")
            no_more = line["close"] in _no_reconnect()
            assert isinstance(end, ConnectionLost) is not no_more
            core.closed(end, end.code)
            return
        before = len(self.queue)
        if "frame" in line:
            core.receive(bytes.fromhex(line["hex"]))
            if line.get("dropped"):
                assert len(self.queue) == before
        else:
            core.receive(json.dumps(line["message"]))
            self.answered(line["message"])
        if not line.get("queued"):
            self.take_events()

    def take_events(self) -> None:
        assert self.core is not None
        while event := self.core.take():
            self.application(event)
        self.core.idle()

    def application(self, event: events.Event) -> None:
        match event:
            case events.Assigned(task):
                self.tasks[task.name] = task
                for table in task.tables:
                    self.stores.setdefault((task.name, table), MemoryStore())
            case events.Promoted(task) | events.Demoted(task):
                self.tasks[task.name] = task
            case events.Records(task, batch):
                assert not batch.stale
                self.delivered.setdefault(task.name, {})[batch.topic] = batch.next_offset
            case events.Restore(task, batch):
                assert not batch.stale
                self.stores[task.name, batch.name].apply(batch)
            case events.Reset(task, table):
                self.stores[task.name, table].wipe()
            case _:
                pass

    # -- the worker's lines ---------------------------------------------------------------------

    def from_worker(self, line: Line) -> None:
        if line.get("close", 0) is None:
            assert self.core is not None
            self.core.closed(ConnectionLost("gone"), "connection_lost")
            return
        if line.get("race"):
            return
        if "frame" in line:
            self.worker_frame(line)
            return
        message = line["message"]
        kind = message["type"]
        if kind in ("credit", "progress"):
            assert self.sent() is None  # lets the core's own credit out
            return
        task = self.tasks.get(message.get("task", ""))
        core = self.core
        assert core is not None
        if kind == "hello":
            got = self.message()
            for key in HELLO:
                assert without_empty(got.get(key)) == without_empty(message.get(key))
            return
        if kind == "opened":
            assert task is not None
            for table, checkpoint in message["checkpoints"].items():
                assert self.store(message["task"], table).checkpoint() == checkpoint
            core.opened(task, message["checkpoints"])
        elif kind == "ready":
            assert task is not None
            core.ready(task)
        elif kind == "released":
            assert task is not None
            core.release(task)
        elif kind == "commit" and not self.commit(message["id"]):
            return
        elif kind == "locate":
            self.locate(message)
        elif kind == "error" and message["code"] == "store_open_failed":
            assert task is not None
            core.fail(task, message["code"], message["message"])
        got = self.message()
        if kind == "ready":
            if got["re"] < message["re"]:  # of a restored that a reset has overtaken
                assert task is not None
                core.ready(task)
                got = self.message()
            self.take_events()  # what has waited for it
        if kind == "error":
            got["message"] = message["message"]
        assert without_empty(got) == without_empty(message)

    def locate(self, message: Line) -> None:
        core = self.core
        assert core is not None
        partition = message.get("partition")
        key = base64.b64decode(message.get("key", "")) if partition is None else None
        answers: list[Answer] = []
        self.answers[message["id"]] = answers
        core.locate(
            message.get("table", ""), key, message.get("set", ""), partition, answers.append
        )

    def answered(self, message: Line) -> None:
        """Check what the application gets of an answer."""
        answers = self.answers.pop(message.get("re", 0), None)
        if answers is None:
            return
        (answer,) = answers
        if message["type"] == "error":
            assert isinstance(answer, LocateError)
            assert answer.code == message["code"]
            return
        assert isinstance(answer, Located)
        assert answer.task == message["task"]
        assert answer.stale is message["stale"]
        active = message.get("active")
        assert (answer.active and answer.active.address) == (active and active["address"])
        assert [s.lag for s in answer.standbys] == [
            None if s["lag"] < 0 else s["lag"] for s in message.get("standbys", [])
        ]

    def worker_frame(self, line: Line) -> None:
        commit = line["frame"]["commit"]
        if not self.commit(commit):
            return
        if line.get("held"):
            assert self.sent() is None, "a frame without credit was sent"
            return
        data = self.sent()
        assert isinstance(data, bytes)
        got, want = decoded(_frames.parse(data)), wanted(line["frame"])
        assert got == want

    def commit(self, id_: int) -> bool:
        """Make the commit at the first line of it. False when its epoch is over."""
        if id_ in self.outcomes and isinstance(self.outcomes[id_], CommitStale):
            return False
        if id_ in self.commits:
            return True
        self.commits.add(id_)
        frames, message = self.parts(id_)
        name = message["task"] if message else next(iter(self.tasks))
        task = self.tasks[name]
        by_stream = {t.stream: ("changelog", t.name) for t in task.tables.values()}
        by_stream |= {o.stream: ("outputs", o.topic) for o in task.outputs.values()}
        writes: dict[str, dict[str, list[Any]]] = {"changelog": {}, "outputs": {}}
        for frame in frames:
            kind, to = by_stream[frame["stream"]]
            rows = writes[kind].setdefault(to, [])
            rows += list(_rows(frame, plain=kind == "changelog"))

        def done(outcome: Outcome) -> None:
            self.outcomes[id_] = outcome
            if isinstance(outcome, Committed):
                for table, checkpoint in outcome.checkpoints.items():
                    rows = dict(writes["changelog"][table])
                    self.stores[name, table].apply_commit(rows, checkpoint)
            else:
                assert isinstance(outcome, PillionError)

        assert self.core is not None
        epoch = message["epoch"] if message else frames[0]["epoch"]
        assert task.epoch == epoch
        source_next = message["source_next"] if message else {next(iter(task.sources)): 1}
        self.core.commit(task, source_next, writes["changelog"], writes["outputs"], done)
        return not isinstance(self.outcomes.get(id_), CommitStale)

    def parts(self, id_: int) -> tuple[list[Line], Line | None]:
        """The frames and the message of a commit, from the present line on."""
        frames: list[Line] = []
        for line in self.lines[self.at - 1 :]:
            if line.get("from") == "worker" and "close" not in line:
                frame = line.get("frame")
                if frame and frame["commit"] == id_ and not line.get("held"):
                    frames.append(frame)
                message = line.get("message", {})
                if message.get("type") == "commit" and message["id"] == id_:
                    return frames, message
            elif "connect" in line:
                break
        return frames, None

    # -- helpers --------------------------------------------------------------------------------

    def sent(self) -> str | bytes | None:
        """What the core sends next; credit and progress are its own affair."""
        assert self.core is not None
        while (data := self.core.next_outgoing()) is not None:
            if isinstance(data, bytes) or json.loads(data)["type"] not in ("credit", "progress"):
                return data
        return None

    def message(self) -> Line:
        data = self.sent()
        assert isinstance(data, str), f"the core sends {data!r}"
        return json.loads(data)

    def store(self, task: str, table: str) -> MemoryStore:
        return self.stores.setdefault((task, table), MemoryStore())

    def give(self, line: Line) -> None:
        rows = {k.encode(): raw(v) for k, v in line["rows"].items()}
        self.store(line["task"], line["store"]).apply_commit(rows, line["checkpoint"])

    def check_store(self, line: Line) -> None:
        rows = {k.encode(): raw(v) for k, v in line["rows"].items()}
        store = self.store(line["task"], line["store"])
        assert dict(store.items()) == rows
        assert store.checkpoint() == line["checkpoint"]


def _rows(frame: Line, *, plain: bool) -> Iterator[Any]:
    for record in frame["records"]:
        key, value = raw(record["key"]), raw(record["value"])
        if plain:
            yield key, value
            continue
        headers = [((raw(k) or b"").decode(), raw(v)) for k, v in record.get("headers", [])]
        yield Record(key, value, headers, record.get("timestamp"))


def _no_reconnect() -> set[int]:
    codes = json.loads((SPEC / "codes.json").read_text(encoding="utf-8"))
    return {each["code"] for each in codes["close_codes"] if not each["reconnect"]}
