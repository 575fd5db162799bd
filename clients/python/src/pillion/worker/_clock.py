"""Time, as the runtime sees it: the event loop's, or one that a test moves by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that has not been made yet."""

    def cancel(self) -> None:
        """Do not make it."""
        ...


class Clock(Protocol):
    """Seconds, from an arbitrary point on."""

    def now(self) -> float:
        """What time it is."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call once, in the event loop, when it is that late."""
        ...


def next_tick(now: float, interval: float) -> float:
    """The next multiple of the interval: what waits for it here and there comes at the same moment.

    So the commits of all tasks of a worker share a transaction of the sidecar.
    """
    tick = (now // interval + 1) * interval
    return tick if tick > now else tick + interval


class LoopClock:
    """The running event loop's clock."""

    def now(self) -> float:
        """See Clock."""
        return asyncio.get_running_loop().time()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """See Clock."""
        return asyncio.get_running_loop().call_at(when, callback)
