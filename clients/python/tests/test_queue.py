"""The queue between core and user code: what overtakes what."""

from __future__ import annotations

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
