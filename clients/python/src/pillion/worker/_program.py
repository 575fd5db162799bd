"""app.run(): a worker from start to exit code.

Exit codes: 0 stopped by a signal or by stop(), or the sidecar has drained; 1 a handler has failed
(the sentence says at which record) or another error of the program, with its traceback; 2 an error
that needs a human; 3 one that another start may cure; 128 + n ended by a second signal n.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from .._run import EXIT_REFUSED, EXIT_RETRIABLE, leave, run_under_signals
from ..errors import Drained, PillionError
from ._policy import HandlerFailed

EXIT_FAILED = 1
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def run_program(main: Callable[[], Coroutine[Any, Any, None]], stop: Callable[[], bool]) -> None:
    """Run main to its end, see run_under_signals(). Logs to stderr if the program logs nowhere."""
    if not logging.getLogger().hasHandlers() and not logging.getLogger("pillion").hasHandlers():
        logging.basicConfig(level=logging.INFO, format=FORMAT, stream=sys.stderr)
    try:
        run_under_signals(main, stop)
    except HandlerFailed as error:
        if error.__cause__ is not None:
            traceback.print_exception(_users(error.__cause__))
        leave(error, EXIT_FAILED)
    except Drained:
        return  # it has come to a sidecar that leaves: as good an end as when it was told later
    except PillionError as error:
        leave(error, EXIT_RETRIABLE if error.retriable else EXIT_REFUSED)


def _users(error: BaseException) -> BaseException:
    """Leave this package's frames out at the top of a traceback: the rest is the user's code."""
    trace = error.__traceback__
    here = __name__.rsplit(".", 1)[0]
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(here):
        trace = trace.tb_next
    return error if trace is None else error.with_traceback(trace)
