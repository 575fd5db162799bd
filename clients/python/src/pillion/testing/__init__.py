"""For tests of workers and stores: a sidecar without Kafka, and what every store must do."""

from ._conformance import store_conformance
from ._driver import TestDriver
from ._fake import FakeSidecar
from ._play import Played, play
from ._worker import FakeCommit, FakeTask, FakeWorker

__all__ = [
    "FakeCommit",
    "FakeSidecar",
    "FakeTask",
    "FakeWorker",
    "Played",
    "TestDriver",
    "play",
    "store_conformance",
]
