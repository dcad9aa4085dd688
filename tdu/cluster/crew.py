"""The processes of a run on a Ray cluster: which are ready, which serve, which have died; and calls to them.

Ray restarts a process that has died, on another machine if its own is lost, but without its state. The run (`cluster.runner`)
decides what a process is given to do, and takes its news.
"""

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tdu.cluster import connection
from tdu.cluster.connection import PATIENCE
from tdu.cluster.messages import ELSEWHERE, Handle, Ref
from tdu.errors import TrainingError, UserError
from tdu.run.processes import one_line

_TRIES = 3  # failures of a rollout after which the run fails


class Process:
    """A process of the cluster, and its work."""

    def __init__(self, kind: str, handle: Handle, rung: int = 0):
        self.kind, self.handle, self.rung = kind, handle, rung
        self.called = f"actor {rung}" if kind == "rollout" else f"the {kind}"
        self.greeting: Ref | None = None  # a call that returns once it is ready, while it is not known to be
        self.busy: Ref | None = None  # the call that is its work, which never returns
        self.lives = self.failures = 0

    def call(self, method: str, *arguments: object) -> Ref:
        return self.handle.call.remote(method, *arguments)


class Crew:
    """All processes of a run.

    `give_work` makes a process busy that is ready and has no work, `take_in` gets the news of the replay or the learner that
    serves, and `event` gets a sentence about what happened.
    """

    def __init__(
        self,
        ray: ModuleType,
        *,
        give_work: Callable[[Process], None],
        take_in: Callable[[str, object], None],
        event: Callable[[str], None],
    ):
        self.ray, self._give_work, self._take_in, self.event = ray, give_work, take_in, event
        self.processes: list[Process] = []
        self.serving: dict[str, Process] = {}  # the replay and the learner that serve
        self._evaluator: Process | None = None
        self._coming: dict[str, Ref] = {}  # calls for news that have yet to return
        self._machines = connection.Machines(ray)
        self._nodes = self._machines.living() or {}
        self._counted_at = 0.0  # when machines were last counted

    @property
    def alive(self) -> int:
        """Rollouts at work."""
        return sum(process.busy is not None for process in self.processes if process.kind == "rollout")

    @property
    def ready(self) -> int:
        """Processes at work or ready to take over."""
        return sum(process.busy is not None for process in self.processes)

    @property
    def machines(self) -> int:
        """Number of machines when they were last counted."""
        return len(self._nodes)

    def handles(self, kind: str) -> list[Handle]:
        """Ray's handles of all processes of a kind, including the spare."""
        return [process.handle for process in self.processes if process.kind == kind]

    def hire(self, kind: str, *, threads: int, rung: int = 0, **resources: int) -> None:
        """Requests a process of the cluster; it gets its work when it is ready."""
        self.processes.append(Process(kind, self._make(kind, threads, **resources), rung))

    def _make(self, kind: str, threads: int, **resources: int) -> Handle:
        # Spread, so that the loss of one of several machines does not end both a process and its spare.
        options = {"num_cpus": 0, "max_restarts": -1, "max_concurrency": threads, "scheduling_strategy": "SPREAD"}
        remote = self.ray.remote(**options | resources)(connection.shipped_process(kind))
        return remote.remote(*connection.working_folder(), kind)

    def close(self) -> None:
        """Ends all processes."""
        for process in [*self.processes, *([self._evaluator] if self._evaluator else [])]:
            self.ray.kill(process.handle)
        self.ray.shutdown()

    def watch(self, seconds: float) -> None:
        """Waits some seconds for something to happen: notes deaths, gives work to ready processes, takes news."""
        self._compare_nodes()
        for process in self.processes:
            if process.busy is None and process.greeting is None:
                process.greeting = process.call("is_ready")
        for kind, arguments in (("replay", (0.5,)), ("learner", ())):
            if kind not in self._coming and kind in self.serving:
                self._coming[kind] = self.serving[kind].call("news", *arguments)
        awaited = [ref for p in self.processes for ref in (p.greeting, p.busy) if ref is not None]
        awaited += self._coming.values()
        if not self.ray.wait(awaited, timeout=seconds)[0]:
            return
        done = set(self.ray.wait(awaited, num_returns=len(awaited), timeout=0)[0])
        for kind in [kind for kind, ref in self._coming.items() if ref in done]:
            self._take_news(kind, self._coming.pop(kind))
        for process in self.processes:
            if process.busy in done:
                self._note_death(process)
            elif process.greeting in done:
                self._set_to_work(process)

    def _compare_nodes(self) -> None:
        if time.monotonic() - self._counted_at < 1.0:
            return
        self._counted_at = time.monotonic()
        nodes = self._machines.living()
        if nodes is None:
            return
        for lost in self._nodes.keys() - nodes.keys():
            self.event(f"machine {self._nodes[lost]} ({lost[:8]}) was lost; {len(nodes)} are left.")
        for new in nodes.keys() - self._nodes.keys():
            self.event(f"machine {nodes[new]} ({new[:8]}) joined; there are {len(nodes)}.")
        self._nodes = nodes

    def _take_news(self, kind: str, ref: Ref) -> None:
        try:
            found = self.ray.get(ref)
        except self.ray.exceptions.RayError:
            return  # it died, which is noted where its work ends
        self._take_in(kind, found)

    def _note_death(self, process: Process) -> None:
        reason = self._why(process)
        process.busy = None
        if process.kind == "rollout":
            self.event(f"{process.called} died ({reason}); {self.alive} of {len(self.handles('rollout'))} alive.")
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

    def _why(self, process: Process) -> str:
        """Why its work ended; raises errors that are not the cluster's."""
        try:
            self.ray.get(process.busy)
        except self.ray.exceptions.RayTaskError as e:
            process.failures += 1
            reason = _reason(e)
            if process.failures >= _TRIES or process.kind != "rollout":
                raise TrainingError(f"{process.called} failed: {reason}") from e
            return reason
        except self.ray.exceptions.RayError as e:
            return type(e).__name__
        return "it ended"

    def _set_to_work(self, process: Process) -> None:
        try:
            greeting, process.greeting = process.greeting, None
            self.ray.get(greeting)
            self._give_work(process)
            process.lives += 1
        except self.ray.exceptions.RayTaskError as e:
            raise TrainingError(f"{process.called} failed: {_reason(e)}") from e
        except self.ray.exceptions.RayError:
            time.sleep(0.1)  # it is not ready yet

    def call(self, kind: str, method: str, *arguments: object) -> Any:
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


def _reason(e: Exception) -> str:
    """The error in a process in one line; a mistake of the user's is raised as it is."""
    cause = getattr(e, "cause", e)
    if isinstance(cause, UserError):
        raise cause from None
    return f"{type(cause).__name__}: {one_line(str(cause))[-300:]}"
