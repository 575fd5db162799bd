"""Every scenario of spec/scenarios, against the conformance worker: over a socket and in memory."""

import asyncio
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pillion import SqliteStores, Worker
from pillion._connection import Connection
from pillion.testing._sim import conformance
from pillion.testing._sim.fault import Fault
from pillion.testing._sim.memory import Main, Program
from pillion.worker._clock import LoopClock
from spec import SPEC

HERE = Path(__file__).resolve().parents[1] / "conformance"
WORKER, APP = HERE / "worker.py", HERE / "app.py"
CASES = {path.stem: path for path in sorted((SPEC / "scenarios").glob("*.jsonl"))}
PARALLEL = 4
NOT_IN_MEMORY = {
    "blocked": "the worker blocks the loop, which is the player's too",
    "busy": "a handshake is refused",
    "handshake": "the proxy and the token of a real handshake",
    "killed": "a process is killed",
    "misaligned": "how bytes are cut into fragments",
    "not_a_sidecar": "a handshake is refused",
    "pieces": "how bytes are cut into writes",
    "unauthorized": "a handshake is refused",
    "unix_socket": "a real socket",
}
# A process takes a while to start: worker.py has one only where it has to, app.py always.
OVER_A_SOCKET = [*(f"app-{case}" for case in CASES), *(f"worker-{case}" for case in NOT_IN_MEMORY)]


def program(path: Path, source: str | None = None) -> Program:
    """A conformance worker as a coroutine: its file reads the environment when it is loaded."""

    def main(job: str, directory: Path) -> Main:
        module = ModuleType("worker")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PILLION_CONFORMANCE_JOB", job)
            patch.setenv("PILLION_CONFORMANCE_DIR", str(directory))
            exec(compile(source or path.read_text(), str(path), "exec"), module.__dict__)
        if path is WORKER:
            return Main(module.main())
        getattr(module, job)()
        app: Worker = module.app
        runtime = app.runtime(
            connect=lambda: Connection(app.options(None)),
            stores=SqliteStores(directory / "stores"),
            clock=LoopClock(),
            commit_interval=0.002,
        )
        return Main(runtime.run(), lambda: runtime.stop(10))

    return main


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> dict[str, Exception | None]:
    """Play the chosen cases over sockets, some at the same time: most of the time is waiting."""
    chosen = [
        item.callspec.id
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_over_a_socket"
    ]
    results: dict[str, Exception | None] = {}

    async def main() -> None:
        room = asyncio.Semaphore(PARALLEL)

        async def one(chosen: str) -> None:
            worker, case = chosen.split("-")
            async with room:
                try:
                    scenario = conformance.read(CASES[case])
                    command = [sys.executable, str(HERE / f"{worker}.py")]
                    await conformance.play_process(scenario, command)
                    results[chosen] = None
                except Exception as error:
                    results[chosen] = error

        await asyncio.gather(*map(one, chosen))

    asyncio.run(main())
    return results


@pytest.mark.parametrize("chosen", OVER_A_SOCKET)
def test_over_a_socket(chosen: str, played: dict[str, Exception | None]) -> None:
    if error := played[chosen]:
        raise error


@pytest.mark.parametrize("case", sorted(CASES.keys() - NOT_IN_MEMORY.keys()))
@pytest.mark.parametrize("worker", [WORKER, APP], ids=lambda path: path.stem)
def test_in_memory(worker: Path, case: str) -> None:
    scenario = conformance.read(CASES[case])
    asyncio.run(conformance.play_memory(scenario, program(worker)))


def test_what_is_not_in_memory_is_there_and_needs_a_wire() -> None:
    """A case that is left out by mistake plays: then this fails."""
    for case in NOT_IN_MEMORY:
        scenario = conformance.read(CASES[case])
        head, verbs = scenario.head, {step.verb.__name__ for step in scenario.steps}
        text = CASES[case].read_text()
        assert (
            head.listen == "unix"
            or head.proxy
            or verbs & {"refuse", "wire", "ping"}  # wire: glue alone can be played
            or '"KILL"' in text
            or '"block ' in text
        ), case


MUTANTS = {
    "null is written as empty": ("(key, value))", '(key, value or b""))', "null_and_empty"),
    "a record counts twice": ('b"0")) + 1', 'b"0")) + 2', "restore"),
    "outputs are forgotten": ('outputs={"changes": changes}', "outputs={}", "process"),
    "rows are not read": ('counts.get(key, b"0")', 'b"0"', "pending"),
    "a row is not deleted": ("counts.pop(key, None)", "pass", "tombstones"),
    "another group": ('group="conformance"', 'group="other"', "assign"),
    "a global table is not read": ('tables.lookup("places", key)', "None", "global"),
    "it ends early": ("async for event in tables:", "for event in []:", "process"),
    "it stands still": ("async for event in tables:", "while await asyncio.sleep(9):", "process"),
    "a batch is left out": (
        "if isinstance(event, pillion.Records)",
        "if isinstance(event, pillion.Records) and event.batch.base_offset",
        "process",
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_worker_that_is_wrong_fails(mutant: str) -> None:
    before, after, case = MUTANTS[mutant]
    source = WORKER.read_text()
    assert before in source
    scenario = conformance.read(CASES[case])
    wrong = program(WORKER, source.replace(before, after))
    with pytest.raises(Fault):
        asyncio.run(conformance.play_memory(scenario, wrong, patience=0.5))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"conect": true}', "unknown step 'conect'"),
        ('{"connect": true, "after": 1}', "after"),
        ('{"feed": "words/0", "per_frame": 2}', "per_frame"),
        ('{"quiet": ["commit"]}', "ms"),
        ("[]", "no JSON object"),
    ],
)
def test_a_file_with_what_is_not_known_is_refused(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "c.jsonl"
    head = '{"case": "c", "level": "tables", "job": "tables", "about": "a", "hint": "h"}'
    path.write_text(f"{head}\n{line}\n")
    with pytest.raises(ValueError, match=f"c.jsonl, line 2: .*{why}"):
        conformance.read(path)


def test_a_head_with_what_is_not_known_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"case": "c", "level": "tables", "job": "tables", "colour": "red"}\n')
    with pytest.raises(ValueError, match="line 1: unknown fields colour"):
        conformance.read(path)
