"""What a run hands to the bench: its figures, and the digest of its table."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import time
from collections.abc import Iterable
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")


class Window:
    """From process ready to table whole. CPU of this process, and of the sidecar beside it."""

    def __init__(self, sidecar: int | None = None) -> None:
        self._sidecar = sidecar
        self._sidecar_cpu = self._cpu_of_sidecar()
        self._cpu = _cpu()
        self._began = time.perf_counter()
        self._seconds = 0.0

    def close(self) -> None:
        """The table is whole."""
        self._seconds = time.perf_counter() - self._began
        self._cpu = _cpu() - self._cpu
        self._sidecar_cpu = self._cpu_of_sidecar() - self._sidecar_cpu

    def write(self, path: str, tables: Iterable[dict[bytes, bytes]], records: int) -> None:
        """Write the figures into a file; no two tables have a key in common."""
        peak, sidecar_peak = _peak("self"), _peak(self._sidecar) if self._sidecar else 0
        table = {key: value for part in tables for key, value in part.items()}
        figures = {
            "seconds": self._seconds,
            "records": records,
            "keys": len(table),
            "digest": digest(table),
            "cpu": self._cpu,
            "rss": peak,
            "sidecar_cpu": self._sidecar_cpu,
            "sidecar_rss": sidecar_peak,
        }
        Path(path).write_text(json.dumps(figures))

    def _cpu_of_sidecar(self) -> float:
        if self._sidecar is None:
            return 0.0
        fields = Path(f"/proc/{self._sidecar}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK


def digest(table: dict[bytes, bytes]) -> str:
    """SHA-256 over "key\\nvalue\\n" of each row, ordered by key."""
    made = hashlib.sha256()
    for key in sorted(table):
        made.update(b"%b\n%b\n" % (key, table[key]))
    return made.hexdigest()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak(process: int | str) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
