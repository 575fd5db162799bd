"""How far the restoring is: a bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import io
import logging
from dataclasses import replace

import pytest

from pillion import events as ev
from pillion.client import Task
from pillion.worker import _progress
from pillion.worker._progress import Progress, duration, summary


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def task(partition: int = 0, role: str = "active") -> Task:
    return Task(f"s/{partition}", "s", partition, role, 1, {}, {}, {})


def restoring(of: Task, records: int, remaining: int, rate: int = 100) -> ev.Restoring:
    return ev.Restoring(of, "t", records, records * 10, rate, remaining, -1)


def test_what_is_restored_at_once_is_added_up() -> None:
    both = [restoring(task(0), 300, 100), restoring(task(1), 0, 800)]
    done, text = summary(both)
    assert done == 0.25
    assert text == "2 tables, 4 s to go, 300 records, 200 records/s"
    assert summary([restoring(task(), 0, 0, 0)]) == (
        1.0,
        "1 table, time to go not known, 0 records, 0 records/s",
    )


def test_what_a_replay_waits_for_is_said_instead_of_the_time_to_go() -> None:
    held = replace(restoring(task(1), 90, 10, 0), waits_for="a transaction at offset 90")
    done, text = summary([restoring(task(0), 0, 0, 0), held])
    assert done == 0.9
    assert text == "2 tables, waits for a transaction at offset 90, 90 records, 0 records/s"


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 59, 61, 3599, 3600, 90061)] == [
        "0 s",
        "59 s",
        "1 min 1 s",
        "59 min 59 s",
        "1 h 0 min",
        "25 h 1 min",
    ]


def test_a_log_line_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pillion")
    time = Time()
    progress = Progress(io.StringIO(), time)
    for time.now in range(25):
        progress.watch(restoring(task(), 4 * time.now, 100 - 4 * time.now, 4))
    progress.watch(ev.Restored(task()))
    assert [record.getMessage() for record in caplog.records] == [
        "restoring 40 %: 1 table, 15 s to go, 40 records, 4 records/s",
        "restoring 80 %: 1 table, 5 s to go, 80 records, 4 records/s",
        "all tables are restored",
    ]


def test_standbys_are_no_news(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pillion")
    time = Time()
    progress = Progress(io.StringIO(), time)
    for time.now in range(25):
        progress.watch(restoring(task(role="standby"), 1, 99))
    assert caplog.records == []


def test_a_plain_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "_rich", lambda stream: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    columns = 89
    monkeypatch.setattr(_progress._Plain, "_columns", lambda self: columns)  # pyright: ignore
    out, time = Terminal(), Time()
    progress = Progress(out, time)
    progress.watch(restoring(task(), 50, 50, 10))
    progress.watch(restoring(task(), 60, 40, 10))  # too soon to be drawn
    time.now = 1
    progress.watch(restoring(task(), 75, 25, 10))
    time.now = 2  # what does not fit into a line is cut: it would be drawn again and again
    columns = 60
    progress.watch(replace(restoring(task(), 75, 25, 0), waits_for="a transaction"))
    progress.watch(ev.Lost(task(), "fenced", ""))
    lines = out.getvalue().split("\r")
    assert [line.rstrip() for line in lines if line.strip()] == [
        "restoring [############............]  50 % 1 table, 5 s to go, 50 records, 10 records/s",
        "restoring [##################......]  75 % 1 table, 2 s to go, 75 records, 10 records/s",
        "restoring [##################......]  75 % 1 table, waits f",
    ]
    assert lines[-1] == ""  # the cursor is at the beginning of an empty line


def test_the_bar_of_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    out = Terminal()
    progress = Progress(out)
    progress.watch(restoring(task(), 50, 50, 10))
    progress.watch(restoring(task(), 75, 25, 10))
    progress.watch(ev.Restored(task()))
    progress.close()
    assert "restoring" in out.getvalue()
    assert "75 % 1 table, 2 s to go, 75 records, 10 records/s" in out.getvalue()
