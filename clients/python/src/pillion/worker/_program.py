"""app.run(): a worker from start to exit code.

Exit codes: 0 stopped by a signal or by stop(), or the sidecar has drained; 1 a handler has failed
(the sentence says at which record) or another error of the program, with its traceback; 2 an error
that needs a human; 3 one that another start may cure; 128 + n ended by a second signal n.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable

from .._run import ECHO, EXIT_REFUSED, EXIT_RETRIABLE
from ..errors import PillionError
from ._policy import HandlerFailed

EXIT_FAILED = 1
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def run_program(main: Callable[[], Awaitable[None]], stop: Callable[[], None]) -> None:
    """Run main to its end; the first SIGTERM or SIGINT calls stop, the second cancels main."""
    if not logging.getLogger().hasHandlers() and not logging.getLogger("pillion").hasHandlers():
        logging.basicConfig(level=logging.INFO, format=FORMAT, stream=sys.stderr)
    program = _Program(stop)
    try:
        with asyncio.Runner() as runner:
            runner.run(program.main(main))
    except asyncio.CancelledError:
        if program.signalled is None:
            raise
        sys.exit(128 + program.signalled)
    except HandlerFailed as error:
        if error.__cause__ is not None:
            traceback.print_exception(_users(error.__cause__))
        _say(error)
        sys.exit(EXIT_FAILED)
    except PillionError as error:
        _say(error)
        sys.exit(EXIT_RETRIABLE if error.retriable else EXIT_REFUSED)


def _say(error: PillionError) -> None:
    print(f"pillion: {error}", file=sys.stderr, flush=True)  # noqa: T201


def _users(error: BaseException) -> BaseException:
    """Leave this package's frames out at the top of a traceback: the rest is the user's code."""
    trace = error.__traceback__
    here = __name__.rsplit(".", 1)[0]
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(here):
        trace = trace.tb_next
    return error if trace is None else error.with_traceback(trace)


class _Program:
    def __init__(self, stop: Callable[[], None]) -> None:
        self.signalled: int | None = None
        self._stop = stop
        self._since = 0.0
        self._unheeded: float | None = None  # since when a signal waits for the loop
        self._task: asyncio.Future[None] | None = None

    async def main(self, main: Callable[[], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signal, number)
            signal.signal(number, self._interrupt)  # beside it: the loop hears of it as before
        self._task = asyncio.ensure_future(main())
        await self._task

    def _interrupt(self, number: int, _: object) -> None:
        """Hear a signal at once, also in the middle of a handler that blocks the loop.

        When the loop has not heeded an earlier one, such a handler never ends: end it.
        """
        now = time.monotonic()
        if self._unheeded is None:
            self._unheeded = now
        elif now - self._unheeded > ECHO:
            sys.exit(128 + number)

    def _signal(self, number: int) -> None:
        self._unheeded = None
        now = asyncio.get_running_loop().time()
        if self.signalled == number and now - self._since < ECHO:
            return
        again = self.signalled is not None
        self.signalled, self._since = number, now
        if not again:
            self._stop()
        elif self._task is not None:
            self._task.cancel()
