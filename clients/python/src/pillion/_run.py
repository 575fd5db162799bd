"""run(): a worker program from start to exit code.

Exit codes: 0 the program returned or the sidecar has drained; 1 an error of the program itself,
with its traceback; 2 an error that needs a human; 3 an error that another start may cure;
128 + n ended by signal n before it could finish.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, cast

from ._options import Running, running
from .errors import Drained, PillionError

EXIT_REFUSED = 2
EXIT_RETRIABLE = 3
ECHO = 0.25  # seconds within which the same signal is the first one: timeout(1) sends it twice


def run(
    main: Callable[[], Coroutine[Any, Any, object]], *, connect_timeout: float | None = 3.0
) -> None:
    """Run an async main. An error of this package is one sentence on stderr and an exit code.

    The first SIGTERM or SIGINT ends the iteration over connections, so that main can finish its
    batch and return; the second one cancels main.
    """
    state = Running(connect_timeout)

    def stop() -> bool:
        for connection in state.connections:
            connection.stop()
        return bool(state.connections)

    async def known() -> object:
        running.set(state)
        return await main()

    try:
        run_under_signals(known, stop)
    except BaseException as error:
        cause = _only(error)
        if isinstance(cause, Drained):
            return
        if not isinstance(cause, PillionError):
            raise
        leave(cause, EXIT_RETRIABLE if cause.retriable else EXIT_REFUSED)


def leave(error: PillionError, code: int) -> NoReturn:
    """End the program: the error's sentence on stderr, and an exit code."""
    print(f"pillion: {error}", file=sys.stderr, flush=True)  # noqa: T201
    sys.exit(code)


def run_under_signals(
    main: Callable[[], Coroutine[Any, Any, object]], stop: Callable[[], bool]
) -> None:
    """Run main to its end. The first SIGTERM or SIGINT calls stop, the second cancels main.

    stop says whether there was something to stop; if not, the first one cancels, too. A main that
    was cancelled by signal n exits with 128 + n.
    """
    program = _Program(stop)
    try:
        with asyncio.Runner() as runner:
            runner.run(program.main(main))
    except asyncio.CancelledError:
        if program.signalled is None:
            raise
        sys.exit(128 + program.signalled)


class _Program:
    def __init__(self, stop: Callable[[], bool]) -> None:
        self.signalled: int | None = None
        self._stop = stop
        self._since = 0.0
        self._unheeded: float | None = None  # since when a signal waits for the loop
        self._task: asyncio.Task[object] | None = None

    async def main(self, main: Callable[[], Coroutine[Any, Any, object]]) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signal, number)
            signal.signal(number, self._interrupt)  # beside it: the loop hears of it as before
        self._task = asyncio.create_task(main())
        await self._task

    def _interrupt(self, number: int, _: object) -> None:
        """Hear a signal at once, also in the middle of user code that blocks the loop.

        When the loop has not heeded an earlier one, such code never ends: end it.
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
        if (again or not self._stop()) and self._task is not None:
            self._task.cancel()


def _only(error: BaseException) -> BaseException:
    """Look into groups of one, as a TaskGroup raises them."""
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return _only(inner[0]) if len(inner) == 1 else cast("BaseException", error)
    return error
