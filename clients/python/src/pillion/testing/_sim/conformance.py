"""Plays scenarios: the verbs, a scenario and a stage put together."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from . import steps as _steps  # registers its verbs
from .memory import MemoryStage, Program
from .player import Player
from .process import ProcessStage
from .scenario import Scenario, load
from .sidecar import Sidecar
from .verbs import VERBS

assert _steps


def read(path: Path) -> Scenario:
    """Read one file. Raises ValueError for what is not known in it."""
    return load(path, VERBS)


async def play_process(scenario: Scenario, command: Sequence[str]) -> None:
    """Play a case against a command, over a real local socket. Raises Fault with notes."""
    head = scenario.head
    with tempfile.TemporaryDirectory(prefix="pillion-") as directory:
        sidecar = Sidecar(head.settings())
        stage = ProcessStage(
            sidecar, command, Path(directory), unix=head.listen == "unix", proxy=head.proxy
        )
        async with stage:
            try:
                await Player(scenario, sidecar, stage).play()
            finally:
                await stage.close()


async def play_memory(scenario: Scenario, program: Program, *, patience: float = 10) -> None:
    """Play a case against a program in this event loop. Raises Fault with notes.

    patience is how many seconds the program may take for each thing that it owes. ValueError: the
    case needs a real socket or process.
    """
    with tempfile.TemporaryDirectory(prefix="pillion-") as directory:
        sidecar = Sidecar(replace(scenario.head.settings(), patience=patience))
        stage = MemoryStage(sidecar, program, Path(directory))
        try:
            await Player(scenario, sidecar, stage).play()
        finally:
            await stage.close()
