"""A random world of the simulation: an app at a sidecar in memory, and everything that can happen.

Everything is drawn from one seed, in an event loop whose time is made up: a run is the same each
time, and no second of it is waited for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pillion import HandlerFailed
from pillion import _messages as m
from pillion._connection import Connection
from pillion.testing._pipe import PipeEnd, pipe
from pillion.testing._sim import moves
from pillion.testing._sim.epoch import Commit, Epoch, Stream
from pillion.testing._sim.kafka import Stored
from pillion.testing._sim.memory import PipeLink, read_pipe
from pillion.testing._sim.session import Session
from pillion.testing._sim.sidecar import Fate, Settings, Sidecar
from pillion.worker._clock import LoopClock
from pillion.worker._runtime import Runtime
from sim_app import BASE, KINDS, App, Model, Op, Plan
from sim_check import Check
from sim_parts import KeptStores, VirtualLoop, Wrong

CALM = 60.0  # seconds of made-up time within which a calm world comes to its end


class World:
    """An app, a sidecar, and what happens."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.model = Model()
        names = rng.choice([["a"], ["a", "b"], ["a", "b", "c"], ["a", "c"]])
        self.plans = [
            Plan(
                name,
                "c" if name == "c" else "a",
                each=rng.random() < 0.6,
                sync=rng.random() < 0.3,
                policy=rng.choice(["stop", "skip", "dead"]),
            )
            for name in names
        ]
        self.partitions = rng.randint(1, 4)
        self.app = App(rng, self.plans, self.model)
        window = rng.choice([300, 2000, 1 << 20])
        self.sidecar = Sidecar(
            Settings(
                limits=m.Limits(1 << 20, 1 << 20, rng.choice([3000, 16 << 20]), rng.randint(1, 2)),
                credit=m.Window(window * 2, window),
                partitions=self.partitions,
            ),
            hears=self._hears,
        )
        self.interval = rng.choice([0, 0.01, 0.1, 1.0])
        self.flaky = rng.choice([0.0, 0.0, 0.002])
        self.calm = False
        self.stores = KeptStores(self._fails)
        self.runtime: Runtime | None = None
        self.run: asyncio.Task[None] | None = None
        self.readers: list[asyncio.Task[None]] = []
        self.greeted: Session | None = None
        self.told: set[Epoch] = set()
        self.roles: dict[str, m.Role] = {}
        self.check = Check(self.sidecar.kafka, self.model, self.plans, self.partitions)
        self._number = 0
        for p in range(self.partitions):
            self.roles[f"all/{p}"] = "global"
            for plan in self.plans:
                self.roles[f"{plan.set}/{p}"] = "active"
        for topic in sorted({"all"} | {f"names-{plan.set}" for plan in self.plans}):
            for p in range(self.partitions):
                for key in BASE:
                    self._put(topic, p, key)

    # -- the worker's life ----------------------------------------------------------------------

    async def start(self) -> None:
        """Start the worker."""
        options = replace(self.app.worker.options(None), dial=self._dial)
        self.runtime = self.app.worker.runtime(
            connect=lambda: Connection(options),
            stores=self.stores,
            clock=LoopClock(),
            commit_interval=self.interval,
        )
        self.run = asyncio.create_task(self.runtime.run(), name="worker")
        await asyncio.sleep(0)

    async def _dial(self) -> PipeEnd:
        ours, theirs = pipe()
        session = self.sidecar.session = Session(self.sidecar, PipeLink(ours))
        self.readers.append(asyncio.create_task(read_pipe(ours, session)))
        return theirs

    async def kill(self) -> None:
        """End it as a crash does."""
        if self.sidecar.session is not None:
            self.sidecar.session.finish(0)
            self.sidecar.session.link.cut()
        for task in filter(None, (self.run, *self.readers)):
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
        self.readers.clear()
        self.sidecar.session = self.run = self.greeted = None
        self.told.clear()
        self.sidecar.handle()
        self._nobody("killed")
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            raise Wrong(f"tasks are left: {left}")

    async def stop(self, timeout: float) -> None:
        """End it as SIGTERM does."""
        assert self.runtime is not None
        assert self.run is not None
        self.runtime.stop(timeout)
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout + 5
        while not self.run.done():
            if loop.time() > end:
                raise Wrong(f"stop({timeout}) has not ended it")
            self._turn()
            await asyncio.sleep(0.001)
        self._nobody("stopped")
        self._ended()

    def _nobody(self, how: str) -> None:
        if any(self.app.inside.values()):
            raise Wrong(f"a handler goes on after the worker was {how}")

    def _ended(self) -> None:
        """The worker has ended by itself."""
        assert self.run is not None
        error = None if self.run.cancelled() else self.run.exception()
        if isinstance(error, HandlerFailed):
            for op in self.model.ops():
                if not any(plan.passes_over(op) for plan in self.plans if plan.name == op.topic):
                    self.app.forgiven.add(op.id)
        elif error is not None:
            raise error

    # -- what happens ---------------------------------------------------------------------------

    def _fails(self) -> bool:
        return not self.calm and self.flaky > 0 and self.rng.random() < self.flaky

    def _hears(self, said: dict[str, Any]) -> bool:
        if said.get("code") not in ("store_open_failed", "worker_failed"):
            return False
        epoch = self.sidecar.now.epochs[said["epoch"]]
        if epoch.living:
            self._lose(epoch)
        return True

    def _put(self, topic: str, partition: int, key: str) -> None:
        self._number += 1
        value = self._number.to_bytes(8, "big")
        self.sidecar.kafka.logs[topic, partition].append([Stored(key.encode(), value)])

    def write(self) -> None:
        """Somebody writes source records."""
        plan, p = self.rng.choice(self.plans), self.rng.randrange(self.partitions)
        log = self.sidecar.kafka.logs[plan.name, p]
        for _ in range(self.rng.choice([1, 1, 3, 8])):
            if self.rng.random() < 0.1:
                log.end += self.rng.randint(1, 3)  # markers, or compacted
            self._number += 1
            op = Op(self.rng.choice(KINDS), self._number, plan.name)
            key = self.rng.choice("wxyz")
            value = None if self.rng.random() < 0.03 else f"{op.kind} {op.id}".encode()
            op = Op("noop", op.id, plan.name) if value is None else op
            self.model.append(plan.name, p, log.end, key, op)
            log.append([Stored(key.encode(), value)])

    def _lose(self, epoch: Epoch) -> None:
        self._answer_all(each for each in self.sidecar.now.held if each.epoch is epoch)
        moves.lose(self.sidecar.now, epoch)

    def _answer_all(self, commits: Iterable[Commit]) -> None:
        for commit in list(commits):
            self._answer(commit)

    def _answer(self, commit: Commit) -> None:
        """Answer the oldest commit of an epoch that waits."""
        session, rng = self.sidecar.now, self.rng
        if commit.epoch.state == "failed":
            session.answer(commit, "aborted", code="commit_failed")
        elif self.calm or rng.random() < 0.8:
            session.answer(commit, "committed")
        else:
            how = rng.choice(["aborted", "unknown"])
            lands = how == "unknown" and rng.random() < 0.5
            session.answer(commit, how, code="kafka_unreachable", lands=lands)

    async def act(self) -> None:
        """One thing happens, or none."""
        session, rng, kafka = self.sidecar.session, self.rng, self.sidecar.kafka
        what = rng.random()
        if what < 0.3:
            self.write()
        elif what < 0.4:
            topic, p = rng.choice([at for at in kafka.logs if at[0][:3] in ("all", "nam")])
            self._put(topic, p, rng.choice([*BASE, "p", "q"]))
        elif what < 0.42:
            await self.kill()
            await self._restart()
        elif what < 0.44 and self.run is not None and not self.run.done():
            await self.stop(rng.choice([0, 0.1, 10]))
            await self.kill()
            await self._restart()
        elif what < 0.47:
            if session is not None:
                self._answer_all(session.held)
            self.sidecar.answers_held = not self.sidecar.answers_held
        elif what < 0.5 and not self.sidecar.answers_held:
            self.sidecar.fates.append(Fate("aborted", "commit_failed", lands=False))
        elif what < 0.52 and not self.sidecar.answers_held:
            self.sidecar.fates.append(Fate("unknown", "kafka_unreachable", rng.random() < 0.5))
        elif what < 0.54 and session is not None and session.hello is not None:
            session.finish(0)
            session.link.cut()
        elif what < 0.75 and session is not None and not session.ended:
            living = [epoch for epoch in session.tasks.values() if epoch.living]
            if living:
                self._move(session, rng.choice(living))

    async def _restart(self) -> None:
        if self.rng.random() < 0.5:
            self.stores = KeptStores(self._fails)
        await self.start()

    def _move(self, session: Session, epoch: Epoch) -> None:
        """Something happens to a task."""
        what, states = self.rng.random(), ("opening", "restoring", "restored", "running")
        if what < 0.25 and epoch.state in states and epoch.role != "global":
            moves.revoke(session, epoch)
        elif what < 0.45:
            self._lose(epoch)
        elif what < 0.75 and epoch.state in states[1:]:
            tables = [
                table
                for table in epoch.tables.values()
                if table not in epoch.resets.values()
                and (table.kind != "changelog" or not epoch.ran)
            ]
            if tables and epoch.role != "standby":
                self.told.discard(epoch)
                moves.reset(session, epoch, self.rng.choice(tables))
        elif epoch.role != "global":
            self.roles[epoch.task] = self.rng.choice(["active", "standby"])

    # -- the sidecar's part ---------------------------------------------------------------------

    async def step(self) -> None:
        """Handle what was said, go on with everything, let some time pass, look."""
        self._turn()
        await asyncio.sleep(self.rng.choice([0, 0, 0, 0.001, 0.02, 0.3]))
        if self.run is not None and self.run.done():
            self._nobody("at its end")
            self._ended()
            await self.kill()
            await self._restart()

    def _turn(self) -> None:
        self.sidecar.handle()
        self._drive()
        self.sidecar.handle()
        if self.app.wrong:
            raise Wrong(self.app.wrong[0])
        self.check.look(self.stores)

    def _drive(self) -> None:
        session, rng = self.sidecar.session, self.rng
        if session is None or session.ended or session.hello is None:
            return
        if self.greeted is not session:
            self.greeted = session
            session.greet()
            for task, role in self.roles.items():
                if role == "global":  # a sidecar gives them all before anything else
                    moves.assign(session, task, role)
        oldest = {commit.epoch: commit for commit in reversed(session.held)}
        for commit in oldest.values():
            if self.calm or rng.random() < 0.3:
                self._answer(commit)
        for task, role in self.roles.items():
            epoch = session.tasks.get(task)
            if not self.calm and rng.random() < 0.5:
                continue
            if epoch is None or not epoch.living:
                moves.assign(session, task, role)
            elif epoch.state == "failed":
                self._lose(epoch)
            elif epoch.role != role:
                self._change(session, epoch)
            else:
                self._serve(session, epoch)

    def _change(self, session: Session, epoch: Epoch) -> None:
        if epoch.queue or epoch.resets or session.waiting(epoch):
            return
        if epoch.role == "active" and epoch.state == "running" and epoch in self.told:
            moves.demote(session, epoch)
        elif epoch.role == "standby" and epoch.state == "restoring":
            for table in epoch.tables.values():
                moves.restore(session, table)
            self.told.add(moves.promote(session, epoch))
        else:
            self._serve(session, epoch)

    def _serve(self, session: Session, epoch: Epoch) -> None:
        if epoch.resets or epoch.queue or epoch.state not in ("restoring", "restored", "running"):
            return
        whole = epoch in self.told
        for table in epoch.tables.values():
            if not whole or table.kind != "changelog" or epoch.role == "standby":
                moves.restore(session, table, per_frame=self.rng.choice([0, 1, 3]))
        if not whole and epoch.role != "standby":
            self.told.add(epoch)
            moves.restored(session, epoch)
        elif whole and epoch.state == "running" and self._globals_whole(session):
            for source in epoch.sources.values():
                self._feed(session, source)

    def _globals_whole(self, session: Session) -> bool:
        found = [session.tasks.get(task) for task, role in self.roles.items() if role == "global"]
        # One with a queue has not been told yet that it is whole again.
        return all(
            each and each in self.told and each.state == "running" and not each.queue
            for each in found
        )

    def _feed(self, session: Session, source: Stream) -> None:
        """Send a few records, when the worker's credit allows it at once."""
        log = session.kafka.logs[source.topic, source.epoch.partition]
        new = log.since(source.position)
        some = new[: self.rng.choice([1, 2, 6])]
        if source.position < log.end and session.may_send(source) and not source.epoch.queue:
            next_ = log.end if len(some) == len(new) else new[len(some)].offset
            if some and self.rng.random() < 0.3:
                next_ = some[-1].offset + 1
            moves.feed(session, source, some, next_)

    def done(self) -> bool:
        """Whether everything that was written is processed."""
        kafka = self.sidecar.kafka
        return all(
            kafka.positions[plan.name, p] >= kafka.logs[plan.name, p].end
            for plan in self.plans
            for p in range(self.partitions)
        )

    async def live(self, steps: int) -> None:
        """Let things happen, then none any more; the worker must catch up."""
        await self.start()
        for _ in range(steps):
            await self.act()
            await self.step()
        self.calm = True
        if self.sidecar.session is not None:
            self._answer_all(self.sidecar.session.held)
        self.sidecar.answers_held = False
        self.sidecar.fates.clear()
        for task, role in self.roles.items():
            self.roles[task] = "global" if role == "global" else "active"
        loop = asyncio.get_running_loop()
        end = loop.time() + CALM
        while not self.done():
            if loop.time() > end:
                raise Wrong("it is stuck")
            await self.step()
        await self.stop(10.0)
        await self.kill()
        self.check.look(self.stores, thoroughly=True)


def live(seed: int, steps: int = 60) -> World:
    """Live one world to its end. Raises Wrong, Fault, or what the worker has raised."""
    random.seed(seed)
    world = World(seed)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(world.live(steps))
    return world
