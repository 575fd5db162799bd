"""The bar as rich draws it. Importing this fails when rich is not installed."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


class RichBar:
    """One line about everything that is being restored."""

    def __init__(self, stream: TextIO) -> None:
        self._progress = Progress(
            TextColumn("restoring"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} % {task.description}"),
            console=Console(file=stream),
            transient=True,
        )
        self._task = self._progress.add_task("", total=1.0)
        self._progress.start()

    def show(self, done: float, text: str) -> None:
        """Draw it. done is from 0 to 1."""
        self._progress.update(self._task, completed=done, description=text)

    def close(self) -> None:
        """Take it away."""
        self._progress.stop()
