"""The examples' programs. Each is there in Python and in TypeScript, and does the same in both."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

in_both = pytest.mark.parametrize("language", ["python", "node"])


def command(language: str, name: str) -> list[str]:
    """How an example is run: flights/worker, say."""
    if language == "python":
        return [sys.executable, str(EXAMPLES / f"{name}.py")]
    program, node = EXAMPLES / "build" / f"{name}.js", shutil.which("node")
    assert node, "there is no node: install Node 20.19 or newer"
    assert program.exists(), f"{program} is not there: run `scripts/setup-node examples`"
    return [node, str(program)]
