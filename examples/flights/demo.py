"""The demo: a year of flights through a group of workers that loses two and gains one.

    make demo                                 with an in-process Kafka
    make demo BOOTSTRAP_SERVERS=host:port     with yours, under topics of its own

Three workers with sidecars share eight tasks, and each task has a warm copy at another one. Two of the
workers are in Node, a and c in what follows, two in Python, b and d: they read each other's tables. At 40 %
of the input a worker is killed, at 70 % a sidecar is told to end, at 85 % a new pair joins. Exit code 0
only if every row and every record is as an independent computation says, and no take-over replayed
more than its copy lacked.
"""

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import data
from check import differences, show
from cluster import PARTITIONS, Cluster, Row, start_kafka
from pairs import Pair, TakeOver, left, owned, owners, settled, take_over

START = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - START:5.1f}s] {text}", flush=True)


def wait_for(what: str, done: Callable[[], bool], seconds: float = 60.0) -> None:
    """Ask until done; give up with a sentence."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise SystemExit(f"demo: waited {seconds:.0f} s for {what}, in vain")
        time.sleep(0.05)


class Happening(NamedTuple):
    """Something that moves tasks: when, which, from whom, and to whom they can go."""

    what: str
    at: float
    tasks: set[int]
    among: list[Pair]  # who had them
    others: list[Pair]
    done: dict[int, int]  # flights committed by partition


class Demo:
    def __init__(self, cluster: Cluster, seconds: float, state: Path) -> None:
        self.cluster = cluster
        self.seconds = seconds
        self.state = state
        self.told = 0
        self.flights = data.flights()
        self.planes = data.planes()
        self.airports = data.airports()
        self.pairs: list[Pair] = []
        self.happened: list[Happening] = []
        self.faults: list[str] = []

    def join(self, name: str, language: str) -> Pair:
        pair = Pair(name, language, self.cluster, self.state)
        self.pairs.append(pair)
        return pair

    def progress(self) -> int:
        """How many flights are committed; told about every tenth of the way."""
        done = sum(self.cluster.committed().values())
        tenth = 10 * done // len(self.flights)
        if tenth > self.told:
            self.told = tenth
            say(f"{done:,} flights committed ({100 * done // len(self.flights)} %)")
        return done

    def reach(self, share: float) -> None:
        wait_for(
            f"{share:.0%} to be committed",
            lambda: self.progress() >= share * len(self.flights),
            self.seconds + 60,
        )

    def settle(self, members: int) -> None:
        wait_for(f"{members} members to share the tasks", lambda: settled(self.cluster, members))
        print(owners(self.cluster), flush=True)

    def note(self, what: str, pair: Pair | None, among: list[Pair], others: list[Pair]) -> None:
        tasks = owned(self.cluster, pair.name) if pair else set(range(PARTITIONS))
        done = self.cluster.committed()
        self.happened.append(Happening(what, time.time(), tasks, among, others, done))

    def story(self) -> None:
        a, b, c = self.join("a", "node"), self.join("b", "python"), self.join("c", "node")
        say("a and c are workers in Node, b is one in Python")
        self.settle(3)
        loader = threading.Thread(
            target=self.cluster.load_flights, args=(self.flights, self.seconds), daemon=True
        )
        loader.start()
        say(f"{len(self.flights):,} flights follow over {self.seconds:.0f} s")

        self.reach(0.4)
        say(f"40 %: SIGKILL to worker {a.name} (Node), which does not come back")
        self.note(f"SIGKILL of worker {a.name}", a, [], [b, c])
        a.kill_worker()
        self.settle(2)

        self.reach(0.7)
        say(f"70 %: SIGTERM to the sidecar of worker {b.name} (Python)")
        self.note(f"SIGTERM to sidecar {b.name}", b, [], [c])
        b.terminate()
        say(f"sidecar and worker {b.name} have ended with exit code {b.process.wait(60)}")
        self.settle(1)

        self.reach(0.85)
        d = self.join("d", "python")
        say(f"85 %: a new pair, {d.name} (Python), joins")
        self.note(f"{d.name} joins", None, [c], [d])
        self.settle(2)
        self.reach(1.0)
        loader.join()
        say("every flight is committed: SIGTERM to all")

    def end(self) -> None:
        """Stop what is left. Only the worker that was killed may have another exit code than 0."""
        for pair in self.pairs:
            pair.terminate()
        codes = {pair.name: pair.process.wait(60) for pair in self.pairs}
        say("exit codes: " + ", ".join(f"{name} {code}" for name, code in codes.items()))
        for name, code in codes.items():
            if code != (128 + 9 if name == "a" else 0):
                self.faults.append(f"{name} ended with exit code {code}")

    def moves(self) -> None:
        """How long each task had no record processed, and what had to be replayed."""
        changelog = self.cluster.read(self.cluster.changelog)
        total = Counter(row.partition for row in self.cluster.read(self.cluster.topic("flights")))
        print(
            f"\n{'':28} {'task':>10}  {'now at':6} {'stood still':>13} {'replayed':>9} {'copy lacked':>12}"
        )
        for happening in self.happened:
            moved = [move for p in sorted(happening.tasks) if (move := self.moved(happening, p, changelog))]
            for move in moved:
                print(
                    f"{happening.what:28} {'flights/' + str(move.partition):>10}  {move.by:6}"
                    f" {move.seconds:11.2f} s {move.replayed:9,} {move.lag:12,}"
                )
                if move.replayed > move.lag:
                    self.faults.append(
                        f"{happening.what}: more was replayed of flights/{move.partition} than its copy lacked"
                    )
            unfinished = {p for p in happening.tasks if happening.done.get(p, 0) < total[p]}
            missing = unfinished - {move.partition for move in moved}
            if missing and not happening.among:
                self.faults.append(f"{happening.what}: nobody has gone on with {sorted(missing)}")

    def moved(self, happening: Happening, partition: int, changelog: list[Row]) -> TakeOver | None:
        """A task stands still from what happened on, or from when somebody who lives lets go of it."""
        since: float | None = happening.at
        if happening.among:
            since = left(partition, happening.at, happening.among)
        if since is None:
            return None  # it has stayed
        moves = (take_over(partition, since, pair, changelog) for pair in happening.others)
        return next((move for move in moves if move), None)

    def check(self) -> None:
        stats: dict[str, dict[str, object]] = {}
        for row in self.cluster.read(self.cluster.changelog):
            assert row.key is not None and row.value is not None
            stats[row.key.decode()] = json.loads(row.value)
        late: Counter[tuple[str, str, str | None, int]] = Counter()
        for row in self.cluster.read(self.cluster.topic("late-arrivals")):
            assert row.value is not None
            r = json.loads(row.value)
            late[(r["id"], r["dest"], r["airport"], r["minutes"])] += 1
        want_stats = data.expected_stats(self.flights, self.planes)
        want_late = data.expected_late(self.flights, self.airports)
        show(late, want_late)
        wrong = differences(
            "plane_stats",
            Counter(map(repr, sorted(stats.items()))),
            Counter(map(repr, sorted(want_stats.items()))),
        ) + differences("late-arrivals", late, want_late)
        for sentence in wrong or [
            f"plane_stats: all {len(want_stats):,} rows are right",
            f"late-arrivals: all {sum(want_late.values()):,} records are right",
        ]:
            say(sentence)
        self.faults += wrong

    def run(self) -> list[str]:
        """Play it all. What comes back are the faults."""
        self.cluster.create_topics()
        self.cluster.load_table("planes", self.planes, "tailnum")
        self.cluster.load_table("airports", self.airports, "faa")
        say(
            f"topics {self.cluster.prefix}*: {len(self.planes):,} planes, {len(self.airports):,} airports loaded"
        )
        try:
            self.story()
            self.end()
        finally:
            for pair in self.pairs:
                pair.process.kill()
        self.moves()
        self.check()
        return self.faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-servers", default="")
    parser.add_argument("--seconds", type=float, default=35.0, help="how long the flights take to load")
    args = parser.parse_args()
    kafka = None
    bootstrap = args.bootstrap_servers
    if not bootstrap:
        kafka, bootstrap = start_kafka()
        say(f"in-process Kafka at {bootstrap}")
    state = Path(tempfile.mkdtemp(prefix="pillion-demo-"))
    try:
        faults = Demo(Cluster(bootstrap), args.seconds, state).run()
    finally:
        shutil.rmtree(state, ignore_errors=True)
        if kafka is not None:
            kafka.terminate()
            kafka.wait(10)
    say("the demo has FAILED: " + "; ".join(faults) if faults else "the demo has passed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
