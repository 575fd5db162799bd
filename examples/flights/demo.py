"""The demo: a year of flights through one worker that is killed twice, and every row checked.

    make demo                                 with an in-process Kafka
    make demo BOOTSTRAP_SERVERS=host:port     with yours, under topics of its own

Exit code 0 only if every row and every record is as an independent computation says.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import data
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 8
SHOWN = 10  # destinations in the table at the end
QUIET = {"log_level": 3, "enable.metrics.push": False}
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


class Demo:
    def __init__(self, bootstrap: str, seconds: float, state: Path) -> None:
        self.bootstrap = bootstrap
        self.seconds = seconds
        self.state = state
        self.prefix = f"pillion-demo-{secrets.token_hex(3)}-"
        self.group = self.prefix + "group"
        self.admin = AdminClient(QUIET | {"bootstrap.servers": bootstrap})
        self.told = 0
        self.flights = data.flights()
        self.planes = data.planes()
        self.airports = data.airports()

    def topic(self, name: str) -> str:
        return self.prefix + name

    def create_topics(self) -> None:
        compact = {"cleanup.policy": "compact"}
        new = [
            NewTopic(self.topic("flights"), PARTITIONS),
            NewTopic(self.topic("planes"), PARTITIONS, config=compact),
            NewTopic(self.topic("airports"), 3, config=compact),
            NewTopic(self.topic("late-arrivals"), 4),
        ]
        for future in self.admin.create_topics(new).values():
            future.result(30)

    def producer(self) -> Producer:
        return Producer(
            QUIET
            | {
                "bootstrap.servers": self.bootstrap,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",
            }
        )

    def load_tables(self) -> None:
        producer = self.producer()
        for rows, topic, key in ((self.planes, "planes", "tailnum"), (self.airports, "airports", "faa")):
            for row in rows:
                producer.produce(self.topic(topic), json.dumps(row).encode(), row[key].encode())
        producer.flush(30)

    def load_flights(self) -> None:
        """Paced, so that the kills fall in the middle."""
        producer = self.producer()
        begin = time.monotonic()
        total = len(self.flights)
        for number, row in enumerate(self.flights):
            key = None if row["tailnum"] == "NA" else row["tailnum"].encode()
            value = json.dumps(row).encode()
            while True:
                try:
                    producer.produce(self.topic("flights"), value, key)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 500 == 0:
                producer.poll(0)
                time.sleep(max(0.0, begin + self.seconds * number / total - time.monotonic()))
        producer.flush(60)

    def start_worker(self) -> subprocess.Popen[bytes]:
        env = os.environ | {"DEMO_PREFIX": self.prefix, "DEMO_STATE": str(self.state)}
        return subprocess.Popen(
            [
                str(ROOT / "bin" / "pillion"), "run", "--bootstrap-servers", self.bootstrap,
                "--group-id", self.group, "--restart", "--log-level", "warn",
                "--", sys.executable, str(Path(__file__).parent / "worker.py"),
            ],
            env=env,
        )  # fmt: skip

    def committed(self) -> int:
        """How many flights are committed, as any consumer group's tools see it."""
        wanted = [TopicPartition(self.topic("flights"), p) for p in range(PARTITIONS)]
        asked = ConsumerGroupTopicPartitions(self.group, wanted)
        try:
            answer = self.admin.list_consumer_group_offsets([asked])[self.group].result(10)
        except Exception:  # the group does not exist yet, or its coordinator is moving
            return 0
        return sum(max(tp.offset, 0) for tp in answer.topic_partitions)

    def progress(self) -> int:
        """The same, told about every tenth of the way."""
        done = self.committed()
        tenth = 10 * done // len(self.flights)
        if tenth > self.told:
            self.told = tenth
            say(f"{done:,} flights committed ({100 * done // len(self.flights)} %)")
        return done

    def worker_pid(self) -> int:
        return int((self.state / "pid").read_text())

    def kill_worker(self) -> None:
        pid = self.worker_pid()
        os.kill(pid, signal.SIGKILL)
        wait_for("the worker to be started again", lambda: self.worker_pid() != pid)

    def kills(self) -> None:
        total = len(self.flights)
        wait_for("40 % to be committed", lambda: self.progress() >= 0.4 * total, self.seconds + 60)
        say("40 %: SIGKILL to the worker, and its disk is lost too")
        (self.state / "hold-restore").touch()
        shutil.move(self.state / "tables", self.state / "lost")
        self.kill_worker()
        wait_for("the restore", lambda: (self.state / "held").exists())
        say("in the middle of the restore that follows: SIGKILL again")
        self.kill_worker()
        say("started again: each table goes on from what its store holds")

    def read(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        consumer = Consumer(
            QUIET
            | {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.prefix + "check",
                "enable.auto.commit": False,
            }
        )
        try:
            partitions = consumer.list_topics(topic, 30).topics[topic].partitions
            left: dict[int, int] = {}
            for p in partitions:
                _, end = consumer.get_watermark_offsets(TopicPartition(topic, p), 30)
                left[p] = end
            consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
            rows: list[tuple[bytes | None, bytes | None]] = []
            while any(
                consumer.position([TopicPartition(topic, p)])[0].offset < end
                for p, end in left.items()
                if end
            ):
                for message in consumer.consume(5000, 1.0):
                    if message.error() is None:
                        rows.append((message.key(), message.value()))
            return rows
        finally:
            consumer.close()

    def check(self) -> bool:
        stats: dict[str, dict[str, object]] = {}
        for key, value in self.read(f"{self.group}-plane_stats-changelog"):
            assert key is not None and value is not None
            stats[key.decode()] = json.loads(value)
        late: Counter[tuple[str, str, str | None, int]] = Counter()
        for _, value in self.read(self.topic("late-arrivals")):
            assert value is not None
            r = json.loads(value)
            late[(r["id"], r["dest"], r["airport"], r["minutes"])] += 1
        want_stats = data.expected_stats(self.flights, self.planes)
        want_late = data.expected_late(self.flights, self.airports)
        show(late, want_late)
        good = compare(
            "plane_stats",
            Counter(map(repr, sorted(stats.items()))),
            Counter(map(repr, sorted(want_stats.items()))),
        )
        return compare("late-arrivals", late, want_late) and good

    def run(self) -> bool:
        self.create_topics()
        self.load_tables()
        say(f"topics {self.prefix}*: {len(self.planes):,} planes, {len(self.airports):,} airports loaded")
        worker = self.start_worker()
        try:
            loader = threading.Thread(target=self.load_flights, daemon=True)
            loader.start()
            say(f"{len(self.flights):,} flights follow over {self.seconds:.0f} s")
            self.kills()
            wait_for("every flight to be committed", lambda: self.progress() >= len(self.flights), self.seconds + 120)
            loader.join()
            say("every flight is committed: SIGTERM")
        finally:
            worker.terminate()
            code = worker.wait(60)
        say(f"sidecar and worker have ended with exit code {code}")
        return self.check() and code == 0


def show(
    got: Counter[tuple[str, str, str | None, int]], want: Counter[tuple[str, str, str | None, int]]
) -> None:
    """Late arrivals: the destinations that have most, those that are wrong, and all the others as one."""
    table: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    names: dict[str, str] = {}
    for side, counter in ((0, got), (2, want)):
        for (_, dest, name, minutes), times in counter.items():
            table[dest][side] += times
            table[dest][side + 1] += times * minutes
            names[dest] = name or "(not in airports)"
    rows = sorted(table.items(), key=lambda row: -row[1][0])
    wrong = [dest for dest, (late, minutes, *want) in rows if [late, minutes] != want]
    shown = [(dest, row) for i, (dest, row) in enumerate(rows) if i < SHOWN or dest in wrong]
    others = [row for i, (dest, row) in enumerate(rows) if i >= SHOWN and dest not in wrong]
    if others:
        names[""] = f"{len(others)} others"
        shown.append(("", [sum(column) for column in zip(*others, strict=True)]))
    print(f"\n{'':4} {'destination':36} {'late':>7} {'minutes':>10}   {'expected':>8} {'minutes':>10}")
    for dest, (late, minutes, want_late, want_minutes) in shown:
        mark = "  WRONG" if dest in wrong else ""
        print(
            f"{dest:4} {names[dest][:36]:36} {late:7,} {minutes:10,}   {want_late:8,} {want_minutes:10,}{mark}"
        )
    print()


def compare(name: str, got: "Counter[object]", want: "Counter[object]") -> bool:  # type: ignore[type-arg]
    missing, extra = want - got, got - want
    if not missing and not extra:
        say(f"{name}: all {sum(want.values()):,} rows are right")
        return True
    say(f"{name}: {sum(missing.values())} rows missing, {sum(extra.values())} wrong or doubled")
    for title, rows in (("missing", missing), ("wrong or doubled", extra)):
        for row in list(rows)[:5]:
            print(f"    {title}: {row}")
    return False


def start_kafka() -> tuple[subprocess.Popen[str], str]:
    kafka = subprocess.Popen(
        [str(ROOT / "bin" / "devkafka"), "--listen", "127.0.0.1:0", "--parent"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert kafka.stdout is not None
    line = kafka.stdout.readline()
    return kafka, line.split()[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", default="")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the flights take to load")
    args = parser.parse_args()
    kafka = None
    bootstrap = args.bootstrap_servers
    if not bootstrap:
        kafka, bootstrap = start_kafka()
        say(f"in-process Kafka at {bootstrap}")
    state = Path(tempfile.mkdtemp(prefix="pillion-demo-"))
    try:
        good = Demo(bootstrap, args.seconds, state).run()
    finally:
        shutil.rmtree(state, ignore_errors=True)
        if kafka is not None:
            kafka.terminate()
            kafka.wait(10)
    say("the demo has passed" if good else "the demo has FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
