"""How far tables have been restored: a bar on a terminal, a log line every ten seconds elsewhere.

The bar is rich's when it is installed, and one line of text when not.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO

from .. import events as ev
from .._notice import logger

EVERY = 10.0  # seconds between two log lines
REDRAW = 0.1  # seconds between two drawings of a plain bar
WIDTH = 24


class Bar(Protocol):
    """One line about everything that is being restored."""

    def show(self, done: float, text: str) -> None:
        """Draw it. done is from 0 to 1."""
        ...

    def close(self) -> None:
        """Take it away."""
        ...


class Progress:
    """Watches events, and says how the restoring of all tables goes on together."""

    def __init__(
        self, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._now = now
        self._tables: dict[tuple[str, str], ev.Restoring] = {}
        self._bar: Bar | None = None
        self._logged: float | None = None

    def watch(self, event: ev.Event) -> None:
        """Take one event."""
        match event:
            case ev.Restoring(task) if task.role != "standby":
                self._tables[task.name, event.table] = event
                self._say()
            case ev.Restored(task) | ev.Promoted(task):
                self._forget(task.name, whole=True)
            case ev.Lost(task) | ev.Revoking(task):
                self._forget(task.name, whole=False)
            case _:
                pass

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _forget(self, task: str, *, whole: bool) -> None:
        mine = [key for key in self._tables if key[0] == task]
        for key in mine:
            del self._tables[key]
        if mine and not self._tables:
            self.close()
            if self._logged is not None and whole:
                logger.info("all tables are restored")
            self._logged = None

    def _say(self) -> None:
        done, text = summary(list(self._tables.values()))
        if self._stream.isatty():
            if self._bar is None:
                self._bar = _bar(self._stream, self._now)
            self._bar.show(done, text)
            return
        now = self._now()
        if self._logged is None:
            self._logged = now  # what is over within seconds is not worth a line
        elif now - self._logged >= EVERY:
            self._logged = now
            logger.info("restoring %d %%: %s", int(done * 100), text)


def summary(tables: list[ev.Restoring]) -> tuple[float, str]:
    """Add up: how much is done, from 0 to 1; tables, time to go, records, records a second."""
    records = sum(each.records for each in tables)
    left = sum(max(0, each.remaining) for each in tables)
    rate = sum(each.rate for each in tables)
    done = records / (records + left) if records + left else 1.0
    eta = left / rate if rate > 0 else -1.0
    what = f"{len(tables)} table{'s' if len(tables) != 1 else ''}"
    to_go = "time to go not known" if eta < 0 else f"{duration(eta)} to go"
    if waits := next((each.waits_for for each in tables if each.waits_for), ""):
        to_go = f"waits for {waits}"
    return done, f"{what}, {to_go}, {records:,} records, {rate:,} records/s"


def duration(seconds: float) -> str:
    """Say a time in two units at most."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


class _Plain:
    def __init__(self, stream: TextIO, now: Callable[[], float]) -> None:
        self._stream = stream
        self._now = now
        self._drawn = -REDRAW
        self._width = 0

    def show(self, done: float, text: str) -> None:
        now = self._now()
        if now - self._drawn < REDRAW:
            return
        self._drawn = now
        full = int(done * WIDTH)
        line = f"restoring [{'#' * full}{'.' * (WIDTH - full)}] {int(done * 100):3} % {text}"
        room = self._columns() - 1  # a second line would stay there
        self._stream.write(f"\r{line:{self._width}}"[: room + 1])
        self._stream.flush()
        self._width = min(len(line), room)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):  # it only says that it is one
            return 80

    def close(self) -> None:
        if self._width:
            self._stream.write(f"\r{' ' * self._width}\r")
            self._stream.flush()


def _bar(stream: TextIO, now: Callable[[], float]) -> Bar:
    return _rich(stream) or _Plain(stream, now)


def _rich(stream: TextIO) -> Bar | None:
    try:
        from ._rich import RichBar
    except ImportError:
        return None
    return RichBar(stream)
