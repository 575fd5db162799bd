"""A clock that stands still until it is moved."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class _Timer:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: _Timer) -> bool:
        return self.when < other.when

    def cancel(self) -> None:
        """See Timer."""
        self.callback = None


class ManualClock:
    """Seconds from 0 on. A Clock of the worker's runtime."""

    def __init__(self) -> None:
        self._now = 0.0
        self._timers: list[_Timer] = []

    def now(self) -> float:
        """See Clock."""
        return self._now

    def call_at(self, when: float, callback: Callable[[], None]) -> _Timer:
        """See Clock."""
        timer = _Timer(when, callback)
        heapq.heappush(self._timers, timer)
        return timer

    def move(self, to: float) -> bool:
        """Go to the next call that is due by then, and make all of that time; False: none was."""
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        found = bool(self._timers) and self._timers[0].when <= to
        self._now = max(self._now, self._timers[0].when if found else to)
        while self._timers and self._timers[0].when <= self._now:
            callback = heapq.heappop(self._timers).callback
            if callback is not None:
                callback()
        return found
