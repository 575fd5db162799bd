"""Workers that are nice to write: typed topics, tables that are dicts, handlers.

Flow: Worker collects declarations; topology() adds them up; the Runtime takes events from the
client's connection and stores, and gives each active task a Runner, which calls handlers and
commits what they have done.

    _worker -> _declarations -> _declared (topics, tables, outputs)
            -> _topology (pure: what is declared, added up and checked)
            -> _runtime -> _runner -> _work -> _rows (typed tables)
                                   -> _records, _context (what handlers get)
                                   -> _policy (what happens to a record that fails)
            -> _program (signals, exit codes), _progress (the bar of restoring)
"""

from ._context import Context
from ._declared import GlobalTable, Output, SourceTable, Table, Topic
from ._policy import DeadLetter, Failure, HandlerFailed, OnError, Skip, Stop
from ._records import Batch, Record
from ._worker import Worker

__all__ = [
    "Batch",
    "Context",
    "DeadLetter",
    "Failure",
    "GlobalTable",
    "HandlerFailed",
    "OnError",
    "Output",
    "Record",
    "Skip",
    "SourceTable",
    "Stop",
    "Table",
    "Topic",
    "Worker",
]
