"""Write faust-changelogs.json anew: what real Faust workers write on a real Kafka.

It needs an empty Kafka, at localhost:9092 or at the given address, and
Faust. From clients/python:

    python3 -m venv /tmp/faust
    /tmp/faust/bin/pip install faust-streaming==0.15.3 aiokafka==0.14.0 orjson==3.13.0
    ../../bin/realkafka --port 9092 &
    /tmp/faust/bin/python tests/data/make_faust_changelogs.py
"""

# Faust is not installed where the types are checked.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import GroupCoordinatorNotAvailableError
from faust.windows import HoppingWindow

HERE = Path(__file__).parent
SOURCES = {"faust_shop": "orders", "faust_zoo": "steps"}
PARTITIONS = 2
START = 1_795_982_640_000  # a full minute, in ms
STEPS = [
    (0, "write_plain", 0),
    (0, "delete", 1),
    (1, "write_types", 2),
    (0, "write_records", 3),
    (0, "count", 4_000),
    (1, "count_other", 9_999),
    (0, "count", 59_999),
    (0, "count", 60_000),
    (1, "count_other", 61_500),
    (0, "forget", 61_500),
]
ORDERS = [
    (0, "ann", "tea", 350, 0),
    (1, "bob", "sofa", 45_000, 1_000),
    (0, "ann", "café", 420, 30_000),
    (1, "bob", "lamp", 9_999, 61_000),
    (0, "zoë", "desk", 12_000, 61_500),
    (0, "ann", "milk", 120, 125_000),
]


async def read_all(broker: str, topic: str) -> list[dict[str, object]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=broker, auto_offset_reset="earliest")
    await consumer.start()
    records: list[dict[str, object]] = []
    try:
        parts = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        consumer.assign(parts)
        ends = await consumer.end_offsets(parts)
        for part in parts:
            while await consumer.position(part) < ends[part]:
                for record in (await consumer.getmany(part, timeout_ms=1000)).get(part, []):
                    records.append(
                        {
                            "partition": record.partition,
                            "offset": record.offset,
                            "timestamp": record.timestamp,
                            "key": record.key and record.key.hex(),
                            "value": None if record.value is None else record.value.hex(),
                            "headers": [[name, value.hex()] for name, value in record.headers],
                        }
                    )
    finally:
        await consumer.stop()
    return records


async def committed(admin: AIOKafkaAdminClient, group: str, topic: str) -> list[int]:
    try:
        offsets = await admin.list_consumer_group_offsets(group)
    except GroupCoordinatorNotAvailableError:  # the first of this Kafka is being made
        return []
    found = (offsets.get(TopicPartition(topic, p)) for p in range(PARTITIONS))
    return [-1 if offset is None else offset.offset for offset in found]


def hide(module: Path) -> None:
    module.write_text("raise ImportError\n", encoding="utf-8")


async def make_sources(broker: str, admin: AIOKafkaAdminClient) -> dict[str, list[int]]:
    """Create the topics that are read, and fill them; how many records each partition has."""
    made = [NewTopic(topic, PARTITIONS, 1) for topic in ("orders", "large-orders", "steps")]
    await admin.create_topics(made)
    ends = {"orders": [0] * PARTITIONS, "steps": [0] * PARTITIONS}
    async with AIOKafkaProducer(bootstrap_servers=broker) as producer:
        for p, name, item, cents, ms in ORDERS:
            value = json.dumps({"item": item, "cents": cents}).encode()
            await producer.send_and_wait("orders", value, name.encode(), p, START + ms)
            ends["orders"][p] += 1
        for p, step, ms in STEPS:
            await producer.send_and_wait("steps", json.dumps(step).encode(), None, p, START + ms)
            ends["steps"][p] += 1
    return ends


async def run_app(
    broker: str,
    admin: AIOKafkaAdminClient,
    ends: dict[str, list[int]],
    module: str,
    *,
    app: str,
    orjson: bool,
) -> None:
    """Run the application until all that it reads is committed."""
    source = SOURCES[module]
    with tempfile.TemporaryDirectory() as directory:
        if not orjson:  # a module that cannot be imported hides the installed one
            hide(Path(directory, "orjson.py"))
        env = {
            **os.environ,
            "PYTHONPATH": f"{directory}:{HERE}",
            "BROKER_URL": f"kafka://{broker}",
            "BROKER_COMMIT_INTERVAL": "0.5",
            "ZOO": app,
        }
        faust = [sys.executable, "-m", "faust", "-A", module, "--datadir", directory]
        worker = await asyncio.create_subprocess_exec(
            *faust, "worker", "-l", "warn", "--without-web", env=env
        )
        for _ in range(300):
            await asyncio.sleep(0.2)
            if await committed(admin, app, source) == ends[source]:
                break
        worker.send_signal(signal.SIGTERM)
        await worker.wait()


async def main(broker: str) -> None:
    found: dict[str, object] = {
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("faust-streaming", "aiokafka", "orjson")},
        },
    }
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    ends = await make_sources(broker, admin)
    await run_app(broker, admin, ends, "faust_shop", app="shop", orjson=False)
    await run_app(broker, admin, ends, "faust_zoo", app="zoo", orjson=False)
    await run_app(broker, admin, ends, "faust_zoo", app="zoo-orjson", orjson=True)
    names = sorted(t for t in await admin.list_topics() if t.endswith("-changelog"))
    names += ["large-orders", "orders", "steps"]
    found["committed"] = {"shop": await committed(admin, "shop", "orders")}
    found["topics"] = {topic: await read_all(broker, topic) for topic in names}
    await admin.close()
    found["windows"] = list(windows())
    (HERE / "faust-changelogs.json").write_text(lines(found) + "\n", encoding="utf-8")


def windows() -> Iterator[dict[str, object]]:
    """What Faust's windows say, for the two tables of the application and odd ones."""
    for size, step in ((60, 60), (10, 5), (10, 4), (120, 30), (7, 1), (5, 15)):
        window = HoppingWindow(size, step)
        for ms in (0, 1, 4_999, 5_000, 59_900, 59_999, 61_234):
            seconds = (START + ms) / 1000
            yield {
                "size": size,
                "step": step,
                "timestamp": START + ms,
                "ranges": window.ranges(seconds),
                "current": window.current(seconds),
                "delta(90)": window.delta(seconds, 90),
            }


def lines(value: object, depth: int = 2) -> str:
    """JSON with one record in a line."""
    if depth and isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {lines(each, depth - 1)}" for name, each in value.items()]
        return "{\n" + ",\n".join(parts) + "\n}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(json.dumps(each) for each in value) + "\n]"
    return json.dumps(value)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
