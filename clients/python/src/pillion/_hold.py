"""Records that wait for a table which is being replayed anew. Pure.

From `reset` until the task's next `restored` the records that user code has not taken yet are held;
for a global table those of every task.

INVARIANT: no record is processed against a table that is not whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from . import events as ev
from ._queue import EventQueue
from ._tasks import State, Task, TaskState


class Hold:
    """Keeps records back, in order."""

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue
        self._held: deque[ev.Records] = deque()

    def begin(self, state: TaskState) -> None:
        """A table of the task was reset: its queued records wait, or all when it is global."""
        state.holding, state.whole = True, False
        everything = state.task.role == "global"

        def match(event: ev.Event) -> bool:
            return isinstance(event, ev.Records) and (everything or event.task is state.task)

        def keep(event: ev.Event) -> None:
            assert isinstance(event, ev.Records)
            self._held.append(event)

        self._queue.drop(match, keep)

    def go_on(self, tasks: Iterable[TaskState]) -> None:
        """Something became whole: put back what no longer waits."""
        states = list(tasks)
        if any(_waits(state) for state in states if state.task.role == "global"):
            return
        waiting = {id(state.task) for state in states if state.holding}
        held, self._held = self._held, deque()
        for event in held:
            if id(event.task) in waiting:
                self._held.append(event)
            else:
                self._queue.put(event)

    def drop(self, task: Task, dropped: Callable[[ev.Event], None]) -> None:
        """The task is revoked or lost."""
        held, self._held = self._held, deque()
        for event in held:
            if event.task is task:
                dropped(event)
            else:
                self._held.append(event)


def _waits(state: TaskState) -> bool:
    return state.holding or state.state is not State.RUNNING
