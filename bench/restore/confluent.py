"""Restore a changelog into a dict with confluent-kafka, tuned: as fast as its API allows.

confluent.py BROKERS TOPIC PARTITIONS FIGURES

With librdkafka's defaults fetching pauses for a second whenever 100,000 messages of a partition are
queued, which makes it four times slower: hence the two settings. Messages are taken by the ten
thousand, so that what is left is the Message object and its methods.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, TopicPartition
from figures import Window

SETTINGS = {
    "group.id": "bench-restore",  # wanted by the library; nothing is joined or committed
    "enable.auto.commit": False,
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 1_000_000,
}


def main() -> None:
    brokers, topic, partitions, figures = sys.argv[1:]
    consumer = Consumer(SETTINGS | {"bootstrap.servers": brokers})
    left = 0
    for partition in range(int(partitions)):  # so it is connected, too
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        left += end
    records = left
    table: dict[bytes, bytes] = {}

    window = Window()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(int(partitions))])
    while left > 0:
        messages = consumer.consume(10_000, timeout=10)
        for message in messages:
            if message.error() is not None:
                sys.exit(str(message.error()))
            value = message.value()
            if value is None:
                table.pop(message.key(), None)
            else:
                table[message.key()] = value
        left -= len(messages)
    window.close()

    consumer.close()
    window.write(figures, [table], records - left)


if __name__ == "__main__":
    main()
