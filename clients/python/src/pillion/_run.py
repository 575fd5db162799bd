"""run(): a worker program from start to exit code.

Exit codes: 0 the program returned or the sidecar has drained; 1 an error of the program itself,
with its traceback; 2 an error that needs a human; 3 an error that another start may cure;
128 + n ended by signal n before it could finish.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, cast

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
    program = _Program(Running(connect_timeout))
    try:
        with asyncio.Runner() as runner:
            runner.run(program.main(main))
    except asyncio.CancelledError:
        if program.signalled is None:
            raise
        sys.exit(128 + program.signalled)
    except BaseException as error:
        cause = _only(error)
        if isinstance(cause, Drained):
            return
        if not isinstance(cause, PillionError):
            raise
        print(f"pillion: {cause}", file=sys.stderr, flush=True)  # noqa: T201
        sys.exit(EXIT_RETRIABLE if cause.retriable else EXIT_REFUSED)


class _Program:
    def __init__(self, state: Running) -> None:
        self.signalled: int | None = None
        self._since = 0.0
        self._state = state
        self._task: asyncio.Task[object] | None = None

    async def main(self, main: Callable[[], Coroutine[Any, Any, object]]) -> None:
        running.set(self._state)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signal, number)
        self._task = asyncio.ensure_future(main())
        await self._task

    def _signal(self, number: int) -> None:
        now = asyncio.get_running_loop().time()
        again = self.signalled is not None
        if self.signalled == number and now - self._since < ECHO:
            return
        self.signalled, self._since = number, now
        if self._state.connections and not again:
            for connection in self._state.connections:
                connection.stop()
        elif self._task is not None:
            self._task.cancel()


def _only(error: BaseException) -> BaseException:
    """Look into groups of one, as a TaskGroup raises them."""
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return _only(inner[0]) if len(inner) == 1 else cast("BaseException", error)
    return error
