"""The files of the specification, as tests read them."""

import json
from pathlib import Path
from typing import Any

SPEC = Path(__file__).resolve().parents[3] / "spec"


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def raw(part: Any) -> bytes | None:
    """A key or value of the decoded form."""
    if part is None:
        return None
    if isinstance(part, str):
        return part.encode()
    found: str = part["hex"]
    return bytes.fromhex(found)
