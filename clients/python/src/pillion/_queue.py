"""The queue between the protocol core and user code. Pure.

INVARIANT: events of one task leave in the order in which they happened.
INVARIANT: once an epoch is lost, no batch of it leaves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from . import events as ev
from ._tasks import Task


class EventQueue:
    """Events that user code has not taken yet. Outlives connections."""

    def __init__(self) -> None:
        self._events: deque[ev.Event] = deque()
        self._overtaking = 0  # events at the front that have overtaken

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: ev.Event) -> None:
        """Append an event. A new task does not wait for the records of others: it overtakes."""
        if isinstance(event, ev.Assigned):
            self.overtake(event)
        else:
            self._events.append(event)

    def overtake(self, event: ev.Assigned | ev.Revoking | ev.Lost | ev.Reset) -> None:
        """Put an event before all others but earlier ones of its task and earlier overtakers."""
        at = self._overtaking
        for i in range(len(self._events) - 1, at - 1, -1):
            before = getattr(self._events[i], "task", None)
            if before is not None and before.name == event.task.name:  # of any epoch
                at = i + 1
                break
        self._events.insert(at, event)
        if at == self._overtaking:
            self._overtaking += 1

    def drop(self, match: Callable[[ev.Event], bool], dropped: Callable[[ev.Event], None]) -> None:
        """Take out the events that match; dropped is called with each."""
        # Overtakers, which stand at the front, never match: their count stays right.
        going = [event for event in self._events if match(event)]
        if going:
            self._events = deque(event for event in self._events if not match(event))
        for event in going:
            dropped(event)

    def take(self, busy: Callable[[ev.Event], bool] | None = None) -> ev.Event | None:
        """Remove the first event; None when there is none.

        With busy, the first one that it does not match. INVARIANT: no event passes an earlier one
        of its task that stays.
        """
        at = 0 if busy is None else self._first(busy)
        if at >= len(self._events):
            return None
        event = self._events[at]
        del self._events[at]
        if at < self._overtaking:
            self._overtaking -= 1
        return event

    def _first(self, busy: Callable[[ev.Event], bool]) -> int:
        waiting: set[str] = set()  # tasks of which an earlier event stays
        for at, event in enumerate(self._events):
            task = getattr(event, "task", None)
            if task is not None and task.name in waiting:
                continue
            if not busy(event):
                return at
            if task is not None:
                waiting.add(task.name)
        return len(self._events)


def useless_after_end(task: Task) -> Callable[[ev.Event], bool]:
    """Match what means nothing once a task is revoked or lost."""

    def match(event: ev.Event) -> bool:
        useless = isinstance(event, ev.Restore | ev.Records | ev.Restoring | ev.Restored)
        return useless and event.task is task

    return match


def rows_of(task: Task, table: str) -> Callable[[ev.Event], bool]:
    """Match the queued rows of one table."""

    def match(event: ev.Event) -> bool:
        return isinstance(event, ev.Restore) and event.task is task and event.table == table

    return match
