"""For tests of apps, workers and stores: no Kafka is needed for any of it.

    from pillion.testing import TestDriver

    def test_words_are_counted() -> None:
        with TestDriver(app) as driver:
            driver.send(lines, "k", "to be or not to be")
            assert driver.table(counts) == {"to": 2, "be": 2, "or": 1, "not": 1}
            driver.restart()                       # a crash: restored from the changelog
            driver.send(lines, "k", "be")
            assert driver.outputs(totals)[-1] == ("be", 3)

TestDriver runs an app (pillion.Worker) in the test itself: synchronous, typed, without a network,
and without waiting, as time moves only when the test says so. Start there.

FakeSidecar is a sidecar on a real local socket whose every message a test decides, for workers that
use pillion.client, or that run as a process; play() gives the next worker of one its records and
keeps what it commits. FakeWorker, FakeTask and FakeCommit are what it hands out: keys and values
are bytes or None. A worker that does not do in 10 s what is waited for is an AssertionError.

store_conformance() checks a store of one's own.
"""

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
