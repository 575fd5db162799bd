"""Random worlds: a worker keeps its promises, whatever happens to it and in whatever order.

A failure names its seed; SEED=<n> WORLDS=1 plays that world alone, the same each time.
"""

from __future__ import annotations

import os

import pytest

from pillion.testing._sim.fault import Fault
from sim_faults import FAULTS, Mutant
from sim_parts import Wrong
from sim_world import live

SEED = int(os.environ.get("SEED", "0"))
WORLDS = int(os.environ.get("WORLDS", "120"))
ENOUGH = 100  # worlds within which each fault is found


@pytest.mark.parametrize("part", range(4))
def test_random_worlds(part: int) -> None:
    for seed in range(SEED + part, SEED + WORLDS, 4):
        try:
            live(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error


def test_a_world_is_the_same_each_time() -> None:
    one, other = live(7), live(7)
    assert one.app.calls == other.app.calls > 0
    assert one.sidecar.kafka.outputs == other.sidecar.kafka.outputs
    assert one.rng.random() == other.rng.random()


@pytest.mark.parametrize(("mutant", "first"), FAULTS, ids=[mutant.__name__ for mutant, _ in FAULTS])
def test_it_finds(mutant: Mutant, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    for seed in range(first, first + ENOUGH):
        try:
            live(seed)
        except (Wrong, Fault) as error:
            print(f"seed {seed}: {error!r}")  # noqa: T201
            return
    pytest.fail(f"{mutant.__name__} was not found within {ENOUGH} worlds")
