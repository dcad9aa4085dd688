"""The processes of a run on a Ray cluster: which are ready, which serve, which have died; and calls to them.

Ray restarts a process that has died, on another machine if its own is lost, but without its state. What a process is given
to do, and what becomes of its news, is decided by the run (`cluster.runner`).
"""

import time
from collections.abc import Callable
from typing import Any

from tdu.cluster import connection
from tdu.cluster.connection import PATIENCE
from tdu.cluster.messages import ELSEWHERE
from tdu.errors import TrainingError, UserError
from tdu.run.processes import one_line

_TRIES = 3
"""Failures of a rollout after which the run fails."""


class Process:
    """A process of the cluster, and its work."""

    def __init__(self, kind: str, handle: Any, rung: int = 0):
        self.kind, self.handle, self.rung = kind, handle, rung
        self.is_rollout = kind == "rollout"
        self.called = f"actor {rung}" if self.is_rollout else f"the {kind}"
        self.greeting: Any = None
        """A call that returns once it is ready, while it is not known to be."""
        self.busy: Any = None
        """The call that is its work, which never returns."""
        self.lives = 0
        self.failures = 0

    def call(self, method: str, *arguments: Any) -> Any:
        """A reference to the result of a method."""
        return self.handle.call.remote(method, *arguments)


class Crew:
    """All processes of a run.

    Args:
        ray: the module, connected.
        give_work: called with a process that is ready and has no work; makes it busy.
        take_in: called with the news of the replay or the learner that serves.
        event: called with a sentence about what happened.
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
        """The replay and the learner that serve."""
        self._evaluator: Process | None = None
        self._coming: dict[str, Any] = {}
        """Calls for news that have yet to return."""
        self._machines = connection.Machines(ray)
        self._nodes = self._machines.living() or {}
        self._looked_at = 0.0
        """When machines were last counted."""

    @property
    def actors(self) -> int:
        """Number of rollouts, alive or not."""
        return len(self.handles("rollout"))

    @property
    def alive(self) -> int:
        """Rollouts at work."""
        return sum(process.busy is not None for process in self.processes if process.is_rollout)

    @property
    def ready(self) -> int:
        """Processes at work or ready to take over."""
        return sum(process.busy is not None for process in self.processes)

    @property
    def machines(self) -> int:
        """Number of machines when they were last counted."""
        return len(self._nodes)

    def handles(self, kind: str) -> list[Any]:
        """Ray's handles of all processes of a kind, including the spare."""
        return [process.handle for process in self.processes if process.kind == kind]

    def hire(self, kind: str, *, threads: int, rung: int = 0, **resources: Any) -> None:
        """Requests a process of the cluster; it gets its work when it is ready."""
        self.processes.append(Process(kind, self._make(kind, threads=threads, **resources), rung))

    def _make(self, kind: str, *, threads: int, **resources: Any) -> Any:
        shipped = connection.shipped_process(kind)
        # Spread, so that the loss of one of several machines does not end both a process and its spare.
        options = {
            "num_cpus": 0,
            "max_restarts": -1,
            "max_concurrency": threads,
            "scheduling_strategy": "SPREAD",
        } | resources
        return self.ray.remote(**options)(shipped).remote(*connection.working_folder(), kind)

    def close(self) -> None:
        """Ends all processes."""
        for process in [*self.processes, *([self._evaluator] if self._evaluator else [])]:
            self.ray.kill(process.handle)
        self.ray.shutdown()

    def watch(self, seconds: float) -> None:
        """Waits some seconds for something to happen: notes deaths, gives work to ready processes, takes news."""
        ray = self.ray
        self._compare_nodes()
        for process in self.processes:
            if process.busy is None and process.greeting is None:
                process.greeting = process.call("is_ready")
        self._request_news()
        refs = [ref for p in self.processes for ref in (p.greeting, p.busy) if ref is not None]
        ready, _ = ray.wait([*refs, *self._coming.values()], timeout=seconds)
        if not ready:
            return
        done = set(ray.wait([*refs, *self._coming.values()], num_returns=len(refs) + len(self._coming), timeout=0)[0])
        for kind in [kind for kind, ref in self._coming.items() if ref in done]:
            self._take_news(kind, self._coming.pop(kind))
        for process in self.processes:
            if process.busy in done:
                self._note_death(process)
            elif process.greeting in done:
                self._set_to_work(process)

    def _compare_nodes(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < 1.0:
            return
        self._looked_at = now
        nodes = self._machines.living()
        if nodes is None:
            return
        for lost in self._nodes.keys() - nodes.keys():
            self.event(f"machine {self._nodes[lost]} ({lost[:8]}) was lost; {len(nodes)} are left.")
        for new in nodes.keys() - self._nodes.keys():
            self.event(f"machine {nodes[new]} ({new[:8]}) joined; there are {len(nodes)}.")
        self._nodes = nodes

    def _request_news(self) -> None:
        for kind, arguments in (("replay", (0.5,)), ("learner", ())):
            if kind not in self._coming and kind in self.serving:
                self._coming[kind] = self.serving[kind].call("news", *arguments)

    def _take_news(self, kind: str, ref: Any) -> None:
        try:
            found = self.ray.get(ref)
        except self.ray.exceptions.RayError:
            return  # it died, which is noted where its work ends
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
            self.ray.kill(process.handle, no_restart=False)  # it may only be out of reach, and two must not serve
            spare = next((p for p in self.processes if p.kind == process.kind and p.busy is not None), None)
            if spare is not None:
                spare.busy, spare.greeting = None, spare.call("is_ready")

    def _why(self, process: Process, ref: Any) -> str:
        """Why a call ended; raises errors that are not the cluster's."""
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
        return "it ended"

    def _set_to_work(self, process: Process) -> None:
        ray = self.ray
        try:
            greeting, process.greeting = process.greeting, None
            ray.get(greeting)
            self._give_work(process)
            process.lives += 1
        except ray.exceptions.RayTaskError as e:
            cause = getattr(e, "cause", e)
            if isinstance(cause, UserError):
                raise cause from None
            raise TrainingError(f"{process.called} failed: {one_line(str(cause))[-300:]}") from e
        except ray.exceptions.RayError:
            time.sleep(0.1)  # it is not ready yet

    def call(self, kind: str, method: str, *arguments: Any) -> Any:
        """The result of a method, however often the process has to be restarted for it."""
        ray, deadline = self.ray, time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            process = self._process(kind)
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
            self.watch(0.2)  # it has died, or was restarted without its state
        raise TrainingError(f"the {kind} did not answer for {PATIENCE:.0f} seconds; continue with --resume.")

    def _process(self, kind: str) -> Process | None:
        """The process that serves; the evaluator is started when it is first needed."""
        if kind != "evaluator":
            return self.serving.get(kind)
        if self._evaluator is None:
            self._evaluator = Process(kind, self._make(kind, threads=2))
        return self._evaluator
