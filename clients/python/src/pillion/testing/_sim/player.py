"""Plays one scenario against a worker on a stage."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from ... import _messages as m
from .epoch import split
from .fault import Fault
from .kafka import Log
from .scenario import LEVELS, Scenario
from .session import Session
from .sidecar import Sidecar
from .stage import Knock, Stage

Pair = tuple[bytes | None, bytes | None]


class Player:
    """State of one case."""

    def __init__(self, scenario: Scenario, sidecar: Sidecar, stage: Stage) -> None:
        self.scenario = scenario
        self.sidecar = sidecar
        self.stage = stage
        self._compared: dict[str, int] = {}
        self._quiet_since: float | None = None

    async def play(self) -> None:
        """Do all steps. An error has a note that says where the case stood."""
        for step in self.scenario.steps:
            self.sidecar.trace.append(f"step: {step.text[:300]}")
            try:
                await step.verb(self, step.value, **step.fields)
            except Exception as error:
                head, trace = self.scenario.head, "\n  ".join(self.sidecar.trace)
                error.add_note(
                    f"{head.case}, line {step.line}: {step.text}\nhint: {head.hint}\n"
                    f"  {trace}\nthe worker printed:\n{self.stage.output()}"
                )
                raise

    @property
    def now(self) -> Session:
        """The present session."""
        return self.sidecar.now

    def log(self, name: str) -> Log:
        """Find "<table>/<partition>", or the source's log."""
        table, partition = split(name)
        return self.sidecar.kafka.logs[self.topic(table), partition]

    def topic(self, table: str) -> str:
        """The topic of a table of the conformance job, or the source itself."""
        return "conformance-counts-changelog" if table == "counts" else table

    async def start(self) -> None:
        """Start the worker anew."""
        self._quiet_since = None
        await self.stage.start(self.scenario.head.job)

    def quiet(self) -> None:
        """Note that a connection or a handshake ends now."""
        self._quiet_since = time.monotonic()

    async def knock(self, after_ms: int) -> Knock:
        """Wait for a handshake; start the worker when nobody has."""
        if self.sidecar.worker is None:
            await self.start()
        worker, stage = self.sidecar.worker, self.stage
        assert worker is not None
        await self.leave(
            "a connection", lambda: stage.knocking is not None or worker.code is not None
        )
        knock, stage.knocking = stage.knocking, None
        if knock is None:
            raise Fault("a connection", worker.ended())
        if self._quiet_since is not None:
            waited = (time.monotonic() - self._quiet_since) * 1000
            if waited < after_ms:
                want = f"a pause of at least {after_ms} ms before the next attempt"
                raise Fault(want, f"one of {waited:.0f} ms")
        return knock

    async def leave(self, want: str, met: Callable[[], bool]) -> None:
        """Wait for something that the end of the connection or the worker may be."""
        self.sidecar.leaving = True
        try:
            await self.sidecar.until(want, met)
        finally:
            self.sidecar.leaving = False

    async def hear(self, want: dict[str, Any]) -> None:
        """Wait for an error of the worker with these fields."""
        heard: list[bool] = []

        def wanted(came: dict[str, Any]) -> bool:
            if came.items() >= want.items():
                heard.append(True)
            return len(heard) == 1 and came.items() >= want.items()

        self.sidecar.hears = wanted
        try:
            await self.sidecar.until(f"the message {want}", lambda: bool(heard))
        finally:
            self.sidecar.hears = None

    def position(self, task: str, written: Any) -> int:
        """Read a position: a number, or "end" for all that was sent."""
        if written == "end":
            return self.now.tasks[task].sources["words"].position
        return int(written)

    def changes(self, task: str) -> list[Pair]:
        """Records of the task in the output since the last time that they were asked for."""
        written = [each.record for each in self.sidecar.kafka.outputs if each.task == task]
        since = self._compared.get(task, 0)
        self._compared[task] = len(written)
        return [(each.key, each.value) for each in written[since:]]


def check_hello(hello: m.Hello, job: str) -> None:
    """Compare the declarations with the job of spec/scenarios/README.md."""
    tables = [m.TableDeclaration("counts"), m.TableDeclaration("names", source_topic="names")]
    whole = job == "tables"
    wants: dict[str, tuple[object, object]] = {
        "group": (hello.group, "conformance"),
        "sets": (hello.sets, [m.SetDeclaration("words", ["words"], tables if whole else [])]),
        "globals": (hello.globals, [m.GlobalDeclaration("places", "places")] if whole else []),
        "outputs": (hello.outputs, ["changes"]),
        "flat": ([*hello.sources, *hello.tables], []),
    }
    for field, (came, want) in wants.items():
        if came != want:
            raise Fault(f"{field} {want}", str(came), f"PILLION_CONFORMANCE_JOB was {job}")
    if 1 not in hello.versions:
        raise Fault("versions with 1", json.dumps(hello.versions))
    if whole and (hello.level or "tables") != LEVELS[-1]:
        raise Fault(f"hello with the level {LEVELS[-1]}", f"level {hello.level!r}")
