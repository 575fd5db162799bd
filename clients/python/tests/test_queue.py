"""The queue between core and user code: what overtakes what."""

from __future__ import annotations

from random import Random

import pytest

from pillion import events as ev
from pillion._queue import EventQueue, useless_after_end
from pillion.client import Task


def task(name: str, epoch: int) -> Task:
    return Task(name, name, 0, "active", epoch, {}, {}, {})


def taken(queue: EventQueue) -> list[ev.Event]:
    events: list[ev.Event] = []
    while (event := queue.take()) is not None:
        events.append(event)
    return events


def test_a_new_task_does_not_wait_for_the_records_of_others() -> None:
    queue = EventQueue()
    busy, new = task("busy/0", 1), task("new/0", 2)
    backlog = [ev.Restored(busy) for _ in range(3)]  # anything that waits in order
    for event in backlog:
        queue.put(event)
    queue.put(ev.Assigned(new))
    queue.overtake(ev.Revoking(new, 1000, "rebalance"))
    first, second, *rest = taken(queue)
    assert first == ev.Assigned(new)
    assert isinstance(second, ev.Revoking)
    assert rest == backlog


def test_a_new_epoch_stays_behind_the_end_of_the_one_before() -> None:
    queue = EventQueue()
    other, old, new = task("other/0", 1), task("same/0", 2), task("same/0", 3)
    queue.put(ev.Restored(other))
    queue.put(ev.Restored(old))
    queue.put(ev.Demoted(old, old))  # stays when the epoch ends, and stands behind others
    queue.drop(useless_after_end(old), lambda _: None)
    queue.overtake(ev.Lost(old, "fenced", ""))
    queue.put(ev.Assigned(new))
    kinds = [type(event) for event in taken(queue)]
    assert kinds == [ev.Restored, ev.Demoted, ev.Lost, ev.Assigned]


def test_what_is_busy_stays_and_nothing_of_its_task_passes_it() -> None:
    queue = EventQueue()
    mine, other = task("mine/0", 1), task("other/0", 2)
    events = [ev.Restored(mine), ev.Demoted(mine, mine), ev.Restored(mine), ev.Restored(other)]
    for event in events:
        queue.put(event)

    def busy(event: ev.Event) -> bool:
        return isinstance(event, ev.Demoted)

    assert [queue.take(busy), queue.take(busy), queue.take(busy)] == [events[0], events[3], None]
    lost, new = ev.Lost(mine, "fenced", ""), ev.Assigned(task("new/0", 3))
    queue.overtake(lost)
    queue.put(new)
    assert [queue.take(busy), queue.take(busy)] == [new, None]
    assert taken(queue) == [*events[1:3], lost]


def test_what_waits_is_not_looked_at_again_and_again() -> None:
    looks = 0

    class Watched(ev.Restored):
        def __getattribute__(self, name: str) -> object:
            nonlocal looks
            looks += 1
            return super().__getattribute__(name)

    queue = EventQueue()
    waiting, other = task("waiting/0", 1), task("other/0", 1)
    for each in (waiting, other):
        for _ in range(500):
            queue.put(Watched(each))
    while queue.take(lambda event: event.task is waiting) is not None:  # type: ignore[union-attr]
        pass
    assert len(queue) == 500
    assert looks < 10 * 1000


@pytest.mark.parametrize("seed", range(200))
def test_events_of_a_task_leave_in_order(seed: int) -> None:
    rng, queue = Random(seed), EventQueue()
    tasks = [task(f"t/{i}", 1) for i in range(3)]
    wants: dict[str, list[ev.Event]] = {each.name: [] for each in tasks}
    for _ in range(60):
        each, what = rng.choice(tasks), rng.random()
        if what < 0.4:
            made: ev.Event = ev.Restored(each)
            queue.put(made)
            wants[each.name].append(made)
        elif what < 0.6:
            lost = ev.Lost(each, "", "")
            queue.overtake(lost)
            wants[each.name].append(lost)
        else:
            got = queue.take(lambda event, busy=each: event == ev.Restored(busy))
            if got is not None:
                assert isinstance(got, ev.Restored | ev.Lost)
                assert got is wants[got.task.name].pop(0)
    assert sum(map(len, wants.values())) == len(queue)
