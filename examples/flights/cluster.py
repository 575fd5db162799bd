"""The demo's Kafka: its topics, the records that go in, and what came out."""

import json
import secrets
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import data
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 8
QUIET = {"log_level": 3, "enable.metrics.push": False}


class Row(NamedTuple):
    partition: int
    offset: int
    timestamp: float  # seconds since 1970
    key: bytes | None
    value: bytes | None


def start_kafka() -> tuple[subprocess.Popen[str], str]:
    """An in-process Kafka, and its address. It ends with us."""
    kafka = subprocess.Popen(
        [str(ROOT / "bin" / "devkafka"), "--listen", "127.0.0.1:0", "--parent"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert kafka.stdout is not None
    return kafka, kafka.stdout.readline().split()[-1]


class Cluster:
    """Topics under a prefix of this run, so that it disturbs nobody."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.prefix = f"pillion-demo-{secrets.token_hex(3)}-"
        self.group = self.prefix + "group"
        self.changelog = f"{self.group}-plane_stats-changelog"
        self.admin = AdminClient(QUIET | {"bootstrap.servers": bootstrap})

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

    def load_table(self, name: str, rows: list[data.Row], key: str) -> None:
        producer = self.producer()
        for row in rows:
            producer.produce(self.topic(name), json.dumps(data.record(row)).encode(), row[key].encode())
        producer.flush(30)

    def load_flights(self, flights: list[data.Row], seconds: float) -> None:
        """Paced, so that what happens falls in the middle."""
        producer = self.producer()
        begin = time.monotonic()
        for number, row in enumerate(flights):
            key = None if row["tailnum"] == "NA" else row["tailnum"].encode()
            value = json.dumps(data.record(row)).encode()
            while True:
                try:
                    producer.produce(self.topic("flights"), value, key)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 500 == 0:
                producer.poll(0)
                time.sleep(max(0.0, begin + seconds * number / len(flights) - time.monotonic()))
        producer.flush(60)

    def committed(self) -> dict[int, int]:
        """How many flights of each partition are committed, as any consumer group's tools see it."""
        wanted = [TopicPartition(self.topic("flights"), p) for p in range(PARTITIONS)]
        asked = ConsumerGroupTopicPartitions(self.group, wanted)
        try:
            answer = self.admin.list_consumer_group_offsets([asked])[self.group].result(10)
        except Exception:  # the group does not exist yet, or its coordinator is moving
            return {}
        return {tp.partition: max(tp.offset, 0) for tp in answer.topic_partitions}

    def read(self, topic: str) -> list[Row]:
        """Every record of a topic, from its beginning to its end."""
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
            ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), 30)[1] for p in partitions}
            consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
            rows: list[Row] = []
            while any(
                consumer.position([TopicPartition(topic, p)])[0].offset < end
                for p, end in ends.items()
                if end
            ):
                for m in consumer.consume(5000, 1.0):
                    if m.error() is None:
                        at = m.timestamp()[1] / 1000
                        rows.append(Row(m.partition(), m.offset(), at, m.key(), m.value()))
            return rows
        finally:
            consumer.close()
