"""The program in the README runs."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from aio import run
from pillion.testing import FakeSidecar, play

README = Path(__file__).resolve().parents[1] / "README.md"


@run
async def test_the_program_in_the_readme(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    assert len(found[1].splitlines()) <= 30
    (tmp_path / "app.py").write_text(found[1], encoding="utf-8")
    async with FakeSidecar() as sidecar:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "app.py", env={"PILLION_URL": sidecar.url}, cwd=tmp_path
        )
        played = await play(sidecar, {"words": [(None, b"a"), (None, None), (None, b"a")]})
        assert await process.wait() == 0
    assert played.tables["counts"] == {b"a": b"2"}
