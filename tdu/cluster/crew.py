"""The processes of a run on a Ray cluster: who is there, who serves, who has died, and what they are asked.

Ray starts a process that has died anew, on another machine if its own is gone, but empty. What a process is given to do when
it is there, and what becomes of the news, is the run's affair (`distributed_recurrent`).
"""

import time
from collections.abc import Callable
from typing import Any

from tdu.cluster import sweep as distributed
from tdu.cluster.messages import ELSEWHERE
from tdu.errors import TrainingError, UserError
from tdu.run.processes import one_line

PATIENCE = 300.0
"""Seconds without an answer, or without a single step, after which a run gives up."""
_TRIES = 3
"""So often may a rollout fail, for reasons of its own and without a step, before the run does."""


class Process:
    """A process of the cluster, and what it is busy with."""

    def __init__(self, kind: str, handle: Any, rung: int = 0):
        self.kind, self.handle, self.rung = kind, handle, rung
        self.is_rollout = kind == "rollout"
        self.called = f"actor {rung}" if self.is_rollout else f"the {kind}"
        self.asked: Any = None
        """Whether it is there, while that is not known."""
        self.busy: Any = None
        """Its work, which has no end."""
        self.lives = 0
        self.failures = 0

    def call(self, method: str, *arguments: Any) -> Any:
        return self.handle.call.remote(method, *arguments)


class Crew:
    """All processes of a run.

    Args:
        ray: the module, connected.
        give_work: is called with a process that is there and has nothing to do; makes it busy.
        take_in: is called with what the replay or the learner of the moment has to tell.
        event: is told what happens.
    """

    def __init__(
        self,
        ray: Any,
        *,
        give_work: Callable[[Process], None],
        take_in: Callable[[str, Any], None],
        event: Callable[[str], None],
    ):
        self.ray, self._give_work, self._take_in, self.event = ray, give_work, take_in, event
        self.processes: list[Process] = []
        self.serving: dict[str, Process] = {}
        """The replay and the learner of the moment."""
        self._evaluator: Process | None = None
        self._coming: dict[str, Any] = {}
        """News that were asked for."""
        self._nodes = self._living_nodes()
        self._looked_at = 0.0
        """When nodes were last counted."""

    @property
    def actors(self) -> int:
        """Those that are wanted."""
        return len(self.handles("rollout"))

    @property
    def alive(self) -> int:
        """Actors at work."""
        return sum(process.busy is not None for process in self.processes if process.is_rollout)

    @property
    def machines(self) -> int:
        """How many there were when they were last counted."""
        return len(self._nodes)

    def handles(self, kind: str) -> list[Any]:
        """Of all processes of a kind, the spare's too."""
        return [process.handle for process in self.processes if process.kind == kind]

    def hire(self, kind: str, *, threads: int, rung: int = 0, **resources: Any) -> None:
        """Asks the cluster for a process; it gets its work when it is there."""
        self.processes.append(Process(kind, self._make(kind, threads=threads, **resources), rung))

    def _make(self, kind: str, *, threads: int, **resources: Any) -> Any:
        shipped = distributed.shipped_process(kind)
        # Spread, so that no machine takes a process and its spare with it where there are several.
        options = {
            "num_cpus": 0,
            "max_restarts": -1,
            "max_concurrency": threads,
            "scheduling_strategy": "SPREAD",
        } | resources
        return self.ray.remote(**options)(shipped).remote(*distributed.working_folder(), kind)

    def close(self) -> None:
        """Ends all that was started on the cluster."""
        for process in [*self.processes, *([self._evaluator] if self._evaluator else [])]:
            self.ray.kill(process.handle)
        self.ray.shutdown()

    def watch(self, seconds: float) -> None:
        """Looks after everybody, for so long at most: notes who died, sets to work who is there again, takes in news."""
        ray = self.ray
        self._compare_nodes()
        for process in self.processes:
            if process.busy is None and process.asked is None:
                process.asked = process.call("is_there")
        self._ask_for_news()
        refs = [ref for p in self.processes for ref in (p.asked, p.busy) if ref is not None]
        ready, _ = ray.wait([*refs, *self._coming.values()], timeout=seconds)
        if not ready:
            return
        done = set(ray.wait([*refs, *self._coming.values()], num_returns=len(refs) + len(self._coming), timeout=0)[0])
        for kind in [kind for kind, ref in self._coming.items() if ref in done]:
            self._hear(kind, self._coming.pop(kind))
        for process in self.processes:
            if process.busy in done:
                self._note_death(process)
            elif process.asked in done:
                self._set_to_work(process)

    def _compare_nodes(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < 1.0:
            return
        self._looked_at = now
        nodes = self._living_nodes()
        for gone in self._nodes.keys() - nodes.keys():
            self.event(f"machine {self._nodes[gone]} ({gone[:8]}) was lost; {len(nodes)} are there.")
        for new in nodes.keys() - self._nodes.keys():
            self.event(f"machine {nodes[new]} ({new[:8]}) joined; {len(nodes)} are there.")
        self._nodes = nodes

    def _ask_for_news(self) -> None:
        for kind, arguments in (("replay", (0.5,)), ("learner", ())):
            if kind not in self._coming and kind in self.serving:
                self._coming[kind] = self.serving[kind].call("news", *arguments)

    def _hear(self, kind: str, ref: Any) -> None:
        try:
            found = self.ray.get(ref)
        except self.ray.exceptions.RayError:
            return  # it died; that is noted where its work ends
        self._take_in(kind, found)

    def _note_death(self, process: Process) -> None:
        reason = self._why(process, process.busy)
        process.busy = None
        if process.is_rollout:
            self.event(f"{process.called} died ({reason}); {self.alive} of {self.actors} alive.")
        elif self.serving.get(process.kind) is not process:
            self.event(f"the spare of {process.called} died ({reason}).")
        else:
            self.event(f"{process.called} died ({reason}).")
            del self.serving[process.kind]
            self._coming.pop(process.kind, None)
            self.ray.kill(process.handle, no_restart=False)  # if it is only out of reach: there must not be two
            spare = next((p for p in self.processes if p.kind == process.kind and p.busy is not None), None)
            if spare is not None:
                spare.busy, spare.asked = None, spare.call("is_there")

    def _why(self, process: Process, ref: Any) -> str:
        """Why a call came to an end; raises what is not the cluster's fault."""
        ray = self.ray
        try:
            ray.get(ref)
        except ray.exceptions.RayTaskError as e:
            cause = getattr(e, "cause", e)
            if isinstance(cause, UserError):
                raise cause from None
            process.failures += 1
            if process.failures >= _TRIES or not process.is_rollout:
                raise TrainingError(
                    f"{process.called} failed: {type(cause).__name__}: {one_line(str(cause))[-300:]}"
                ) from e
            return one_line(f"{type(cause).__name__}: {cause}")[-200:]
        except ray.exceptions.RayError as e:
            return type(e).__name__
        return "it came to an end"

    def _set_to_work(self, process: Process) -> None:
        ray = self.ray
        try:
            asked, process.asked = process.asked, None
            ray.get(asked)
            self._give_work(process)
            process.lives += 1
        except ray.exceptions.RayTaskError as e:
            cause = getattr(e, "cause", e)
            if isinstance(cause, UserError):
                raise cause from None
            raise TrainingError(f"{process.called} failed: {one_line(str(cause))[-300:]}") from e
        except ray.exceptions.RayError:
            time.sleep(0.1)  # it is not there yet

    def ask(self, kind: str, method: str, *arguments: Any) -> Any:
        """An answer, however often a process has to be started anew for it."""
        ray, deadline = self.ray, time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            process = self._who(kind)
            if process is None:
                self.watch(0.2)
                continue
            answer = process.call(method, *arguments)
            while not ray.wait([answer], timeout=0.05)[0]:
                self.watch(0.0)
            try:
                found = ray.get(answer)
            except ray.exceptions.RayTaskError as e:
                raise getattr(e, "cause", e) from None
            except ray.exceptions.RayError:
                found = ELSEWHERE
            if not isinstance(found, str):
                return found
            self.watch(0.2)  # it has died, or has done so before and was started anew, empty
        raise TrainingError(f"the {kind} did not answer for {PATIENCE:.0f} seconds; continue with --resume.")

    def _who(self, kind: str) -> Process | None:
        """Whom to ask; the evaluator comes when it is needed for the first time."""
        if kind != "evaluator":
            return self.serving.get(kind)
        if self._evaluator is None:
            self._evaluator = Process(kind, self._make(kind, threads=2))
        return self._evaluator

    def _living_nodes(self) -> dict[str, str]:
        return {node["NodeID"]: node["NodeManagerAddress"] for node in self.ray.nodes() if node["Alive"]}
