# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
"""Faults that are put into the worker on purpose, by patching it, to see that they are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pillion import events as ev
from pillion._tables import Tables, TableView
from pillion.worker._rows import Rows
from pillion.worker._runner import Runner
from pillion.worker._runtime import Runtime
from pillion.worker._work import Work

Mutant = Callable[[pytest.MonkeyPatch], None]


def nobody_waits_for_the_former_handler(patch: pytest.MonkeyPatch) -> None:
    run = Runner.run
    patch.setattr(Runner, "run", lambda self, before: run(self, None))


def undo_leaves_values_in_hand(patch: pytest.MonkeyPatch) -> None:
    def undo(self: Work) -> None:
        self._unit.clear()
        for rows in self._rows.values():
            rows._written.clear()

    patch.setattr(Work, "undo", undo)


def undo_leaves_outputs(patch: pytest.MonkeyPatch) -> None:
    def undo(self: Work) -> None:
        for rows in self._rows.values():
            rows.undo()

    patch.setattr(Work, "undo", undo)


def reset_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    busy = Runtime._busy
    patch.setattr(
        Runtime, "_busy", lambda self, event: not isinstance(event, ev.Reset) and busy(self, event)
    )


def restore_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    busy = Runtime._busy
    patch.setattr(
        Runtime,
        "_busy",
        lambda self, event: not isinstance(event, ev.Restore) and busy(self, event),
    )


def positions_move_before_the_unit_is_kept(patch: pytest.MonkeyPatch) -> None:
    handle = Runner._handle

    async def early(self: Runner, raw: Any) -> None:
        self._positions[raw.topic] = raw.next_offset
        await handle(self, raw)

    patch.setattr(Runner, "_handle", early)


def lost_is_not_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Runner, "lost", lambda self: None)


def stores_take_commits_that_failed(patch: pytest.MonkeyPatch) -> None:
    settle = Tables._settle

    def careless(self: Tables, mine: Any, made: Any) -> None:
        if made in mine.commits and made.ended.exception():
            for name, layer in made.layers.items():
                store = mine.tables[name].store
                if layer and store.checkpoint():
                    store.apply_commit(layer, store.checkpoint())
        settle(self, mine, made)

    patch.setattr(Tables, "_settle", careless)


def changed_values_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rows, "settle", lambda self: None)


def rows_of_commits_on_their_way_are_not_read(patch: pytest.MonkeyPatch) -> None:
    def find(self: TableView, key: bytes) -> bytes | None:
        return self._overlay[key] if key in self._overlay else self.store.get(key)

    patch.setattr(TableView, "find", find)


def scans_leave_out_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    scan = TableView.scan

    def short(self: TableView, over: Any = None) -> Any:
        sent, self._sent = self._sent, []
        try:
            return scan(self, over)
        finally:
            self._sent = sent

    patch.setattr(TableView, "scan", short)


def calls_by_time_look_at_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Runtime, "_whole", lambda self, task: True)


def a_revoke_is_answered_at_once(patch: pytest.MonkeyPatch) -> None:
    def revoke(self: Runtime, tables: Tables, task: Any) -> None:
        self._forget(task)
        tables.release(task)

    patch.setattr(Runtime, "_revoke", revoke)


FAULTS: list[tuple[Mutant, int]] = [  # and a world that finds it
    (nobody_waits_for_the_former_handler, 10),
    (undo_leaves_values_in_hand, 1),
    (undo_leaves_outputs, 1),
    (reset_does_not_wait, 160),
    (restore_does_not_wait, 64),
    (positions_move_before_the_unit_is_kept, 0),
    (lost_is_not_heard, 7),
    (stores_take_commits_that_failed, 0),
    (changed_values_are_forgotten, 0),
    (rows_of_commits_on_their_way_are_not_read, 0),
    (scans_leave_out_what_is_not_committed, 0),
    (calls_by_time_look_at_nothing, 1),
    (a_revoke_is_answered_at_once, 20),
]
