"""The queue between the protocol core and user code. Pure.

INVARIANT: events of one task leave in the order in which they happened.
INVARIANT: once an epoch is lost, no batch of it leaves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from . import events as ev
from ._tasks import Task

# Where an event stands: 0 for overtakers and 1 for others, its number, and for what follows an
# earlier event of its task directly, how far behind.
_Place = tuple[int, int, int]


class EventQueue:
    """Events that user code has not taken yet. Outlives connections.

    Each task has a line of its own; the heads of the lines are in a heap. So an event is found in
    the time that the tasks take, however many events wait behind one that is busy.
    """

    def __init__(self) -> None:
        self._lines: dict[str, deque[tuple[_Place, ev.Event]]] = {}
        """By task, none empty; "" for events of no task."""
        self._heads: list[tuple[_Place, str]] = []
        """A heap: one entry for each line."""
        self._number = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, event: ev.Event) -> None:
        """Append an event. A new task does not wait for the records of others: it overtakes."""
        if isinstance(event, ev.Assigned):
            self.overtake(event)
        else:
            self._number += 1
            self._append(event, (1, self._number, 0))

    def overtake(self, event: ev.Assigned | ev.Revoking | ev.Lost | ev.Reset) -> None:
        """Put an event before all others but earlier ones of its task and earlier overtakers."""
        line = self._lines.get(event.task.name)  # of any epoch
        self._number += 1
        if line:
            group, number, behind = line[-1][0]
            self._append(event, (group, number, behind + 1))
        else:
            self._append(event, (0, self._number, 0))

    def drop(self, match: Callable[[ev.Event], bool], dropped: Callable[[ev.Event], None]) -> None:
        """Take out the events that match; dropped is called with each, in order."""
        everything = [each for line in self._lines.values() for each in line]
        going = sorted((each for each in everything if match(each[1])), key=_place)
        if going:
            self._lines, self._heads, self._size = {}, [], 0
            for place, event in everything:
                if not match(event):
                    self._append(event, place)
        for _, event in going:
            dropped(event)

    def take(self, busy: Callable[[ev.Event], bool] | None = None) -> ev.Event | None:
        """Remove the first event; None when there is none.

        With busy, the first one that it does not match. INVARIANT: no event passes an earlier one
        of its task that stays.
        """
        staying: list[tuple[_Place, str]] = []
        found: ev.Event | None = None
        while self._heads and found is None:
            place, name = heappop(self._heads)
            event = self._lines[name][0][1]
            if busy is not None and busy(event):
                staying.append((place, name))
            else:
                found = event
                self._remove_head(name)
        for head in staying:
            heappush(self._heads, head)
        return found

    def _append(self, event: ev.Event, place: _Place) -> None:
        task = getattr(event, "task", None)
        name = "" if task is None else task.name
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = deque()
            heappush(self._heads, (place, name))
        line.append((place, event))
        self._size += 1

    def _remove_head(self, name: str) -> None:
        line = self._lines[name]
        line.popleft()
        self._size -= 1
        if line:
            heappush(self._heads, (line[0][0], name))
        else:
            del self._lines[name]


def _place(of: tuple[_Place, ev.Event]) -> _Place:
    return of[0]


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
