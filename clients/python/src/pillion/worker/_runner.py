"""One task epoch at work: batches to handlers, what they have done to commits.

Flow: the runtime gives one batch at a time; the runner calls the handler, keeps what it has done as
one unit, and commits what was kept when the interval is over. end() lets the unit in hand be
finished, commits, and ends; lost() drops everything.

INVARIANT: one handler at a time per task, whatever the epoch: a runner begins when its predecessor
has ended.
INVARIANT: no handler begins, records or time, while a table that it may read is not whole.
INVARIANT: a commit's positions and writes are those of whole units, in order; of a unit that
failed nothing is committed.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from .._batch import Batch as RawBatch
from .._codes import Code
from .._commits import Committed
from .._encode import Record as RawRecord
from .._notice import logger
from .._tables import Tables
from .._tasks import Task
from ..errors import CommitError, ConnectionLost, Drained, StoreError, UsageError
from ._checks import check_dead_letters
from ._clock import Clock, Timer, next_tick
from ._context import MISTAKES, Context, waits
from ._policy import (
    DeadLetter,
    Failure,
    HandlerFailed,
    Stop,
    Verdict,
    dead_letter_headers,
    describe,
    failed_handler,
    undecodable,
    verdict_of,
)
from ._records import cut, decode
from ._topology import Handler, SetPlan, Settings, Ticker
from ._work import Work

BREATH = 0.02  # seconds after which @app.each lets the event loop turn


class Runner:
    """The work of one active task under one epoch."""

    def __init__(
        self,
        task: Task,
        plan: SetPlan,
        work: Work,
        tables: Tables,
        settings: Settings,
        clock: Clock,
        changed: Callable[[], None],
        whole: Callable[[], bool],
    ) -> None:
        self.task = task
        self.failure: BaseException | None = None
        """Why it has ended, when that ends the program."""
        self._plan = plan
        self._work = work
        self._tables = tables
        self._settings = settings
        self._clock = clock
        self._changed = changed  # busy, failure
        self._whole = whole  # the tables of the task, and the global ones
        self._batch: RawBatch | None = None
        self._ending = False
        self._over = False  # the epoch is: nothing can be committed any more
        self._inside = False  # a handler is at work
        self._call_number = 0
        self._waiting = False  # for an async handler
        self._ticking = False
        self._woken = asyncio.Event()
        self._positions = {topic: each.position for topic, each in task.sources.items()}
        self._commit_at: float | None = None  # something waits for the commit that is due then
        self._beside: Timer | None = None  # commits while a handler waits
        self._sent: list[asyncio.Future[Committed]] = []
        limits = tables.conn.welcome.limits
        self._outstanding = min(2, limits.max_outstanding_commits)
        self._room = limits.max_commit_bytes * 3 // 4
        self._contexts: dict[Handler | Ticker, Context] = {}
        self._ticks: dict[Ticker, float] = {}

    @property
    def busy(self) -> bool:
        """Whether it has a batch in hand, or is in a call by time."""
        return self._batch is not None or self._ticking

    @property
    def resting(self) -> bool:
        """Whether it has nothing in hand, and nothing is due by time."""
        return not self.busy and self._ticked() is None and self.failure is None

    @property
    def clean(self) -> bool:
        """Whether nothing waits for a commit, or for the answer to one."""
        return self._commit_at is None and not self._sent

    def give(self, batch: RawBatch) -> None:
        """Hand it a batch. Only when it is not busy."""
        self._batch = batch
        self._woken.set()

    def wake(self) -> None:
        """Look again whether the tables are whole."""
        self._woken.set()

    def end(self) -> None:
        """Finish the unit in hand, commit, end. Idempotent."""
        self._ending = True
        self._woken.set()

    def lost(self) -> None:
        """The epoch is over: drop everything. The handler in hand is waited for."""
        self._over = True
        self._woken.set()

    async def run(self, before: asyncio.Task[None] | None) -> None:
        """Work until the end; failure says whether it was a good one."""
        try:
            if before is not None:
                await asyncio.wait([before])
            now = self._clock.now()
            self._ticks = {ticker: now + ticker.seconds for ticker in self._plan.tickers}
            try:
                await self._work_on()
            except HandlerFailed as failed:
                self.failure = failed  # and what was before it is committed first
            await self._finish()
        except Exception as error:
            self.failure = self.failure or error
        finally:
            self._batch = None
            self._ticking = False
            self._changed()

    async def _work_on(self) -> None:
        while True:
            self._ended()
            if self._over or self._ending:
                return
            if self._batch is not None:
                await self._handle(self._batch)
                self._batch = None
                self._changed()
            elif ticker := self._ticked():
                self._ticking = True
                await self._tick(ticker)
                self._ticking = False
                self._changed()
            elif self._due():
                self._commit()
            else:
                await self._wait()

    async def _finish(self) -> None:
        while self._commit_at is not None and not self._over:
            if len(self._sent) >= self._outstanding:
                await self._answer()
            else:
                self._commit()
        while self._sent:
            await self._answer()

    async def _wait(self) -> None:
        times = list(self._ticks.values()) if self._whole() else []
        if self._commit_at is not None and len(self._sent) < self._outstanding:
            times.append(self._commit_at)
        timer = self._clock.call_at(min(times), self._woken.set) if times else None
        await self._woken.wait()
        self._woken.clear()
        if timer is not None:
            timer.cancel()

    # -- units ----------------------------------------------------------------------------------

    async def _handle(self, raw: RawBatch) -> None:
        handler = self._plan.handlers[raw.topic]
        if handler.each:
            await self._each(raw, handler)
        else:
            await self._process(raw, handler)

    async def _process(self, raw: RawBatch, handler: Handler) -> None:
        batch, bad = decode(raw, handler.topic)
        failed: HandlerFailed | None = None
        end = raw.next_offset
        for row, error in bad.items():
            failure = self._failure(raw, row, error, decoding=True)
            if failed := self._refuse(failure, raw, row, handler):
                # Behind the record before it, not at this one: between them may be a gap.
                end = raw.offsets[row - 1] + 1 if row else raw.base_offset
                batch = cut(raw, batch, bad, row)
                break
        size = 0
        if batch:
            said = await self._call(handler, batch)
            if self._over:
                return
            if isinstance(said, Exception):
                where = f"in the batch of {raw.topic}/{raw.task.partition} from offset"
                raise failed_handler(handler.name, f"{where} {batch.offsets[0]}", said)
            size = said
        elif bad:
            size = self._work.settle()  # dead letters
        await self._room_for(size)
        self._keep(size, raw.topic, end)
        if failed is not None:
            raise failed

    async def _each(self, raw: RawBatch, handler: Handler) -> None:
        batch, bad = decode(raw, handler.topic)
        records, offsets = batch.records(), raw.offsets
        breath, last = self._clock.now(), len(raw) - 1
        for row in range(len(raw)):
            if self._over or self._ending:
                return  # what is left comes again
            said: int | Exception
            if row in bad:
                said = bad[row]
            else:
                said = await self._call(handler, next(records))
            if self._over:
                return
            if isinstance(said, Exception):
                failure = self._failure(raw, row, said, decoding=row in bad)
                if failed := self._refuse(failure, raw, row, handler):
                    raise failed
                said = self._work.settle()
            await self._room_for(said)
            self._keep(said, raw.topic, offsets[row] + 1 if row < last else raw.next_offset)
            if self._clock.now() - breath > BREATH:
                if self._settings.commit_interval and self._due():
                    self._commit()
                await asyncio.sleep(0)
                self._ended()
                breath = self._clock.now()
        if not raw:
            self._keep(0, raw.topic, raw.next_offset)

    async def _tick(self, ticker: Ticker) -> None:
        said = await self._call(ticker)
        now, next_ = self._clock.now(), self._ticks[ticker] + ticker.seconds
        self._ticks[ticker] = next_ if next_ > now else now + ticker.seconds
        if self._over:
            return
        if isinstance(said, Exception):
            raise failed_handler(ticker.name, f"in task {self.task.name}", said)
        await self._room_for(said)
        if said:
            self._keep(said)

    async def _call(self, of: Handler | Ticker, *args: object) -> int | Exception:
        """Let user code do a unit. Gives the size of what it writes, or what it has raised."""
        self._inside = True
        self._call_number += 1
        function: Callable[..., object] = of.function
        try:
            said = function(*args, self._context(of))
            if said is not None and inspect.isawaitable(said):
                await self._wait_for(said)
            return self._work.settle()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # the run ends
            cancelled = RuntimeError("what it awaited was cancelled")
            cancelled.__cause__ = error
            return self._undone(cancelled)
        except Exception as error:
            return self._undone(error)
        finally:
            self._inside = False

    async def _wait_for(self, handler: Awaitable[object]) -> None:
        """Let an async handler take its time: what was kept before it is committed meanwhile."""
        self._waiting = True
        self._commit_beside()
        try:
            await handler
        finally:
            self._waiting = False

    def _undone(self, error: Exception) -> Exception:
        self._work.undo()
        if getattr(error, "code", "") in MISTAKES:
            raise error  # no record is at fault: on_error is not asked
        if isinstance(error, StoreError) and not self._over:
            # No fault of the record: the task is opened anew, and its records come again.
            self._tables.fail(self.task, error)
            self._over = True
        if self._over:
            logger.debug("a handler of task %s, which is gone: %r", self.task.name, error)
        return error

    async def _room_for(self, size: int) -> None:
        """Commit what was kept when the unit would make the commit too large."""
        if self._work.size and self._work.size + size > self._room:
            while len(self._sent) >= self._outstanding and not self._over:
                await self._answer()
            if not self._over:
                self._commit()

    def _keep(self, size: int, topic: str = "", end: int = 0) -> None:
        """The unit is whole, and with it the records up to this position."""
        self._work.keep(size)
        if topic:
            self._positions[topic] = end
        if self._commit_at is None:
            self._commit_at = now = self._clock.now()
            if interval := self._settings.commit_interval:
                self._commit_at = next_tick(now, interval)
                self._beside = self._clock.call_at(self._commit_at, self._commit_beside)

    def _context(self, of: Handler | Ticker) -> Context:
        """Give a plain handler the same for all its calls, as nothing of it goes on when it has
        returned; an async one gets one for each.
        """
        found = self._contexts.get(of)
        if found is not None:
            return found
        alone, number = waits(of.function), self._call_number
        made = Context(
            of.name,
            self._work,
            of.tables,
            self._settings.outputs,
            lambda: self._inside and (not alone or self._call_number == number),
            lambda: self._over,
            self._tables.conn.progress if alone else None,
            lends=alone,
        )
        if not alone:
            self._contexts[of] = made
        return made

    def _ticked(self) -> Ticker | None:
        if not self._ticks or not self._whole():
            return None
        now = self._clock.now()
        return next((ticker for ticker, at in self._ticks.items() if at <= now), None)

    # -- errors ---------------------------------------------------------------------------------

    def _failure(self, raw: RawBatch, row: int, error: Exception, *, decoding: bool) -> Failure:
        at = (raw.topic, raw.task.partition, raw.offsets[row])
        return Failure(error, *at, raw.keys[row], raw.values[row], decoding)

    def _refuse(
        self, failure: Failure, raw: RawBatch, row: int, handler: Handler
    ) -> HandlerFailed | None:
        """Do as the policy says: nothing of the record is left; None when it was passed over."""
        policy = self._settings.on_error if handler.on_error is None else handler.on_error
        where = f"{failure.topic}/{failure.partition} offset {failure.offset}"
        try:
            verdict: Verdict = verdict_of(policy, failure)
        except Exception as error:
            return failed_handler(f"on_error of {handler.name}", f"for {where}", error)
        if isinstance(verdict, Stop):
            if failure.decoding:
                return undecodable(where, failure.error)
            return failed_handler(handler.name, f"at {where}", failure.error)
        went = "goes to dead letters" if isinstance(verdict, DeadLetter) else "is skipped"
        why = "" if failure.decoding else f"{handler.name} has raised "
        new = None if failure.decoding else self._settings.told.first(failure.error)
        logger.warning("%s %s: %s%s", where, went, why, describe(failure.error), exc_info=new)
        if isinstance(verdict, DeadLetter):
            try:
                check_dead_letters(handler.name, verdict.output)
            except UsageError as error:
                return failed_handler(f"on_error of {handler.name}", f"for {where}", error)
            headers = (*raw.headers(row), *dead_letter_headers(failure))
            self._work.send(verdict.output.name, RawRecord(failure.key, failure.value, headers))
        return None

    # -- commits --------------------------------------------------------------------------------

    def _due(self) -> bool:
        unanswered = sum(not sent.done() for sent in self._sent)
        if self._commit_at is None or unanswered >= self._outstanding:
            return False
        return self._clock.now() >= self._commit_at

    def _commit(self) -> None:
        """Begin the commit of everything that was kept. Raises what another attempt cannot cure."""
        self._commit_at = None
        if self._beside is not None:
            self._beside.cancel()
        outputs = self._work.take_outputs()
        sent = self._tables.send(self.task, dict(self._positions), outputs=outputs)
        self._sent.append(sent)
        sent.add_done_callback(self._commit_beside)

    def _commit_beside(self, _: object = None) -> None:
        """Wake up; commit what is due although a handler waits for something."""
        self._woken.set()
        over = self._over or any(sent.done() and sent.exception() for sent in self._sent)
        if over or not self._waiting or not self._settings.commit_interval or not self._due():
            return
        try:
            self._commit()
        except Exception as error:
            failed = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            self._sent.append(failed)

    async def _answer(self) -> None:
        """Wait for the oldest commit's end."""
        sent = self._sent[0]
        await asyncio.wait([sent])
        self._ended()

    def _ended(self) -> None:
        while self._sent and self._sent[0].done():
            error = self._sent.pop(0).exception()
            if error is None:
                continue
            self._over = True  # nothing of this epoch that follows can be committed
            if isinstance(error, Drained):
                continue  # a good end, which takes what was in hand to others
            if not isinstance(error, CommitError | ConnectionLost) or not error.retriable:
                raise error
            logger.info("%s", error)
            if error.code == Code.NOT_ALLOWED and not self._ending:
                # The epoch goes on, but nothing more of it can come from here: open it anew.
                failed = Code.WORKER_FAILED.value
                self._tables.conn.fail(self.task, error.message, code=failed)
