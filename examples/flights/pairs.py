"""The demo's workers with their sidecars, and what is read from their notes."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cluster import PARTITIONS, ROOT, Cluster, Row

PILLION = str(ROOT / "bin" / "pillion")


@dataclass
class Note:
    """One line of a worker's events.jsonl."""

    at: float
    event: str  # assigned, restore, whole, records
    partition: int
    records: int = 0
    next: int = 0
    role: str = ""


class Pair:
    """One sidecar with its worker."""

    def __init__(self, name: str, cluster: Cluster, state: Path) -> None:
        self.name = name
        self.state = state / name
        self.process = subprocess.Popen(
            [
                PILLION, "run", "--bootstrap-servers", cluster.bootstrap, "--group-id", cluster.group,
                "--num-standby-replicas", "1", "--log-level", "warn",
                "--", sys.executable, str(Path(__file__).parent / "worker.py"),
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

    def running(self) -> set[int]:
        """Partitions whose records have come, as far as the notes tell."""
        return {note.partition for note in self.notes() if note.event == "records"}


@dataclass
class TakeOver:
    """How a task came to another worker after something happened."""

    partition: int
    by: str
    seconds: float  # from what happened to the first record at the new worker
    replayed: int  # records of plane_stats applied in between
    lag: int  # what its copy lacked when it happened, in records


def take_overs(what: float, tasks: set[int], others: list[Pair], changelog: list[Row]) -> list[TakeOver]:
    """Tell how each task came to one of the others after the moment `what`."""
    found = []
    for partition in sorted(tasks):
        for pair in others:
            notes = [note for note in pair.notes() if note.partition == partition]
            first = next((n for n in notes if n.event == "records" and n.at > what), None)
            if first is None:
                continue
            position = max((n.next for n in notes if n.event == "restore" and n.at <= what), default=0)
            replayed = sum(n.records for n in notes if n.event == "restore" and what < n.at <= first.at)
            # What others had written when its own writes began: its first commit comes after its first record.
            lag = sum(
                1
                for row in changelog
                if row.partition == partition and row.offset >= position and row.timestamp < first.at
            )
            found.append(TakeOver(partition, pair.name, first.at - what, replayed, lag))
            break
    return found


def owners(cluster: Cluster) -> str:
    """Who owns and who shadows what, as `pillion group` prints it."""
    told = subprocess.run(
        [PILLION, "group", "--bootstrap-servers", cluster.bootstrap, "--group-id", cluster.group],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    return told.stdout if told.returncode == 0 else told.stderr


def settled(cluster: Cluster, members: int) -> bool:
    """So many members have every task between them, and copies where there can be any."""
    told = subprocess.run(
        [PILLION, "group", "--json", "--bootstrap-servers", cluster.bootstrap, "--group-id", cluster.group],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    if told.returncode != 0:
        return False
    group = json.loads(told.stdout)
    shares = [share for member in group["members"] for share in member["shares"]]
    active = sum(len(share["active"]) for share in shares)
    standby = sum(len(share["standby"]) for share in shares)
    copies = PARTITIONS if members > 1 else 0
    return len(group["members"]) == members and active == PARTITIONS and standby == copies
