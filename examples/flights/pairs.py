"""The demo's workers, in Python and in Node, with their sidecars, and what is read from their notes."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster import PARTITIONS, ROOT, Cluster, Row

PILLION = str(ROOT / "bin" / "pillion")
WORKERS = {
    "python": [sys.executable, str(ROOT / "examples" / "flights" / "worker.py")],
    "node": ["node", str(ROOT / "examples" / "build" / "flights" / "worker.js")],
}


@dataclass
class Note:
    """One line of a worker's events.jsonl."""

    at: float
    event: str  # assigned, restore, whole, records, left
    partition: int
    records: int = 0
    next: int = 0
    role: str = ""


class Pair:
    """One sidecar with its worker."""

    def __init__(self, name: str, language: str, cluster: Cluster, state: Path) -> None:
        self.name = name
        self.state = state / name
        self.process = subprocess.Popen(
            [
                PILLION, "run", "--bootstrap-servers", cluster.bootstrap, "--group-id", cluster.group,
                "--num-standby-replicas", "1", "--log-level", "warn",
                "--", *WORKERS[language],
            ],
            env=os.environ | {"DEMO_PREFIX": cluster.prefix, "DEMO_STATE": str(self.state)},
        )  # fmt: skip

    def kill_worker(self) -> None:
        os.kill(int((self.state / "pid").read_text()), signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM to the sidecar."""
        self.process.terminate()

    def notes(self) -> list[Note]:
        path = self.state / "events.jsonl"
        if not path.exists():
            return []
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        known = Note.__dataclass_fields__
        return [Note(**{name: value for name, value in line.items() if name in known}) for line in lines]


@dataclass
class TakeOver:
    """How a task came to another worker after something happened."""

    partition: int
    by: str
    seconds: float  # from then to the first record at the new worker
    replayed: int  # records of plane_stats applied in between
    lag: int  # what its copy lacked then, in records


def take_over(partition: int, since: float, pair: Pair, changelog: list[Row]) -> TakeOver | None:
    """Tell how a task came to a pair after a moment at which it had no owner any more."""
    notes = [note for note in pair.notes() if note.partition == partition]
    first = next((n for n in notes if n.event == "records" and n.at > since), None)
    if first is None:
        return None
    position = max((n.next for n in notes if n.event == "restore" and n.at <= since), default=0)
    replayed = sum(n.records for n in notes if n.event == "restore" and since < n.at <= first.at)
    # What others had written when its own writes began: its first commit comes after its first record.
    lag = sum(
        1
        for row in changelog
        if row.partition == partition and row.offset >= position and row.timestamp < first.at
    )
    return TakeOver(partition, pair.name, first.at - since, replayed, lag)


def left(partition: int, after: float, pairs: list[Pair]) -> float | None:
    """When one of the pairs let go of a task, after a moment."""
    times = [n.at for pair in pairs for n in pair.notes() if n.event == "left" and n.partition == partition]
    return min((at for at in times if at > after), default=None)


def owners(cluster: Cluster) -> str:
    """Who owns and who shadows what, as `pillion group` prints it."""
    told = subprocess.run(
        [PILLION, "group", "--bootstrap-servers", cluster.bootstrap, "--group-id", cluster.group],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    return told.stdout if told.returncode == 0 else told.stderr


def group(cluster: Cluster) -> dict[str, Any] | None:
    """The same for programs; None while it cannot be told."""
    told = subprocess.run(
        [PILLION, "group", "--json", "--bootstrap-servers", cluster.bootstrap, "--group-id", cluster.group],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    return json.loads(told.stdout) if told.returncode == 0 else None


def owned(cluster: Cluster, name: str) -> set[int]:
    """The partitions that a pair has. The group is settled."""
    members = (group(cluster) or {"members": []})["members"]
    shares = [share for m in members if m.get("address") == name for share in m["shares"]]
    return {partition for share in shares for partition in share["active"]}


def settled(cluster: Cluster, members: int) -> bool:
    """So many members have every task between them in equal shares, and copies where there can be any."""
    told = group(cluster)
    if told is None:
        return False
    active = [sum(len(share["active"]) for share in m["shares"]) for m in told["members"]]
    standby = sum(len(share["standby"]) for m in told["members"] for share in m["shares"])
    copies = PARTITIONS if members > 1 else 0
    even = max(active, default=0) - min(active, default=0) <= 1
    return len(active) == members and sum(active) == PARTITIONS and even and standby == copies
