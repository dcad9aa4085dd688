"""R2D2 on a real Ray cluster of several nodes on this machine, while actors, nodes, replay and learner are killed.

    python benchmarks/ray_chaos.py --minutes 10 --out results/ray_chaos.json
    python benchmarks/ray_chaos.py --minutes 1 --out …           kills each of the four once

The run is `tdu train --engine ray --address …`, as a user would type it. Its environments record every step they take, and
give every episode a unique return. The benchmark checks:

- After every kill, once all nodes are back, acting continues within 30 seconds (times `--patience`). After a kill of the
  learner or the replay, learning continues too.
- No episode is logged twice, and no more steps are counted than were taken.
- Learner and replay continue from their checkpoint, and every death and return is in events.csv.
- Learning and acting end at the stated ratio, within the allowed lead of acting.
- The object store is empty after the run. Its largest size during the run is recorded.
- The folder is an ordinary run: it loads, and its policy can be evaluated. In the long form the run is interrupted and
  resumed, and continues its counts.
"""

import argparse
import csv
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's own processes would starve its workers on a busy machine
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray.cluster_utils import Cluster
from ray_chaos_env import BOOKS

import tdu
from tdu.run.folder import read_log

ACTORS, ENVS, PERIOD = 3, 2, 32
ROLLS = ACTORS * ENVS * 20
"""Steps of one roll of all actors together."""
SLACK = 2 * PERIOD + ROLLS
"""The lead of acting that the run allows. In addition, every actor may hand in one more roll before it waits."""
LONGEST_STALL = 30.0
STORE = 100 * 2**20
OPTIONS = {
    "--exploiters": 2, "--explorers": 2, "--hidden-sizes": 16, "--lstm-size": 16, "--head-size": 16, "--batch-size": 8,
    "--trace-length": 10, "--burn-in": 2, "--replay-period": 5, "--replay-capacity": 2000, "--min-replay": 50,
    "--learn-period": PERIOD, "--rollout": 20, "--num-envs": ENVS,
}  # fmt: skip
HEALTH = {"health_check_initial_delay_ms": 2000, "health_check_period_ms": 1000, "health_check_failure_threshold": 10}


class Checkpoint(NamedTuple):
    steps: int
    """Steps that the replay had received."""
    ahead: int
    """Of these, the steps for which learning steps were still due."""


class Run:
    """The command and its output."""

    def __init__(self, address: str, folder: Path, *, resume: bool = False, patience: float = 1.0):
        self.out, self.books = folder / "run", folder / "books"
        self.patience = patience
        self.books.mkdir(exist_ok=True)
        here = Path(__file__).resolve().parent
        command = [sys.executable, "-P", "-m", "tdu", "train", "python:ray_chaos_env:make", "--agent", "tdu_r2d2"]
        command += ["--engine", "ray", "--actors", str(ACTORS), "--address", address, "--steps", str(10**9)]
        command += ["--out", str(self.out), "--checkpoint-seconds", "5", "--progress", "json"]
        command += ["--resume"] if resume else []
        command += [str(word) for pair in OPTIONS.items() for word in pair]
        paths = os.pathsep.join([str(here), str(here.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = os.environ | {"PYTHONPATH": paths}
        heeding = [sys.executable, "-c", _HEEDING, *command]  # SIGINT is not ignored, as in a terminal
        self.said = folder / "said"
        with open(self.said, "w") as said:
            self.process = subprocess.Popen(
                heeding, stdout=subprocess.PIPE, stderr=said, text=True, env=environment, cwd=folder
            )
        self.steps = self.updates = self.alive = 0
        self.history: list[tuple[float, int, int, int]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                shown = json.loads(line)
            except ValueError:
                continue
            status = shown["status"].replace(",", "")
            self.steps = shown["steps"]
            self.updates = int(_found(r"\((\d+) learning steps", status))
            self.alive = int(_found(r"(\d+) of \d+ actors alive", status))
            self.history.append((time.monotonic(), self.steps, self.updates, self.alive))

    def wait(self, what: str, condition: Any, seconds: float) -> float:
        began = time.monotonic()
        while not condition():
            if self.process.poll() is not None:
                raise SystemExit(f"the run ended while waiting for {what}: {self.said.read_text()[-2000:]}")
            if time.monotonic() - began > seconds * self.patience:
                raise SystemExit(
                    f"{what} did not happen in {seconds * self.patience:.0f} s: {self.said.read_text()[-2000:]}"
                )
            time.sleep(0.1)
        return time.monotonic() - began

    def interrupt(self) -> int:
        """Interrupts the run like Ctrl-C; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(120 * self.patience)

    def checkpoint(self) -> "Checkpoint":
        """The numbers of the last checkpoint."""
        while True:
            try:
                newest = max((self.out / "checkpoints").glob("[0-9]*/manifest.json"))
                plain = json.loads(newest.read_text())["plain"]
                break
            except FileNotFoundError:  # a newer one has replaced it
                continue
        received = plain["steps"] + sum(message["steps"] for message in plain["pending"])
        replay = plain["replay"]
        return Checkpoint(received, received - replay["learns_from"] - PERIOD * replay["updates"])

    def events(self) -> list[str]:
        """Events of the run's processes, from events.csv."""
        if not (self.out / "events.csv").exists():
            return []
        with open(self.out / "events.csv", newline="") as f:
            return [row["event"] for row in csv.DictReader(f)]


_HEEDING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else "0"


def processes(cluster: Cluster, kind: str) -> list[int]:
    """Processes of a kind on this cluster."""
    raylets = {node.all_processes["raylet"][0].process.pid for node in (cluster.head_node, *cluster.worker_nodes)}
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            title = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if title.startswith(f"ray::{kind}") and parent in raylets:
            found.append(int(pid))
    return sorted(found)


def stored() -> float:
    """MiB in the object stores of all nodes."""
    total, free = (
        found.get("object_store_memory", 0.0) for found in (ray.cluster_resources(), ray.available_resources())
    )
    return round((total - free) / 2**20, 3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", type=Path, help="copy the run's folder there")
    parser.add_argument("--patience", type=float, default=1.0, help="factor on every limit of time, for a busy machine")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        os.environ[BOOKS] = str(Path(folder) / "books")  # the nodes' processes inherit it
        head = {"num_cpus": 0, "object_store_memory": STORE, "_system_config": dict(HEALTH), "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(2):
                cluster.add_node(num_cpus=2, object_store_memory=STORE)
            ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
            outcome = measure(cluster, Path(folder), parsed.minutes, parsed.patience)
        finally:
            ray.shutdown()
            cluster.shutdown()
            if parsed.keep is not None:
                shutil.copytree(folder, parsed.keep)
    parsed.out.write_text(json.dumps(outcome, indent=2) + "\n")
    print(json.dumps({name: value for name, value in outcome.items() if name != "kills"}, indent=2))
    return 1 if outcome["violations"] else 0


def measure(cluster: Cluster, folder: Path, minutes: float, patience: float) -> dict[str, Any]:
    run = Run(cluster.address, folder, patience=patience)
    kills: list[dict[str, Any]] = []
    store: list[float] = []
    try:
        startup = run.wait("the first learning", lambda: run.updates > 20 and run.alive == ACTORS, 400)
        run.wait("a checkpoint", lambda: any((run.out / "checkpoints").glob("[0-9]*")), 100)
        began = time.monotonic()
        while len(kills) < 4 or time.monotonic() - began < 60 * minutes:
            kind = ("actor", "learner", "replay", "node")[len(kills) % 4]
            kills.append({"what": kind, "at_seconds": round(time.monotonic() - began, 1)} | strike(cluster, run, kind))
            store.append(stored())
            print(kills[-1], store[-1], file=sys.stderr, flush=True)
            rest = 60 * minutes / 4 if minutes <= 2 else 20.0
            run.wait("a moment under load", _after(min(rest, 10.0)), 60)
        seconds = time.monotonic() - began
        recovered = run.steps
        run.wait(
            "a checkpoint in which learning has made up for what was lost",
            lambda: (last := run.checkpoint()).steps > recovered and last.ahead <= SLACK + ROLLS,
            200,
        )
    finally:
        code = run.interrupt()
    empty_by = time.monotonic() + 30 * patience
    while stored() > 0 and time.monotonic() < empty_by:
        time.sleep(0.5)
    how = {
        "minutes": minutes,
        "patience": patience,
        "startup": round(startup, 1),
        "seconds": round(seconds, 1),
        "code": code,
    }
    outcome = verdict(cluster, run, kills, store, how)
    if minutes > 2:
        outcome["resumed_at_step"], outcome["resumed_upto_step"] = resumed(cluster, folder, patience)
        if not outcome["steps_counted"] <= outcome["resumed_at_step"] < outcome["resumed_upto_step"]:
            outcome["violations"].append("it was not resumed from where it was saved")
    return outcome


def resumed(cluster: Cluster, folder: Path, patience: float) -> tuple[int, int]:
    """Resumes the run for a moment; returns the first and the last reported step."""
    run = Run(cluster.address, folder, resume=True, patience=patience)
    try:
        run.wait("steps after --resume", lambda: run.history and run.steps > run.history[0][1] + 500, 200)
    finally:
        run.interrupt()
    return run.history[0][1], run.steps


def _after(seconds: float) -> Any:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def strike(cluster: Cluster, run: Run, kind: str) -> dict[str, Any]:
    """Kills a process or node and waits until the cluster has recovered; returns the seconds."""
    killed = time.monotonic()
    sign = "was lost" if kind == "node" else " died ("
    seen = sum(sign in event for event in run.events())
    if kind == "node":
        victim = sorted(cluster.worker_nodes, key=lambda node: node.unique_id)[0]
        homes = {k: [p for p in processes(cluster, k) if _parent(p) == _raylet(victim)] for k in _KINDS}
        cluster.remove_node(victim, allow_graceful=False)
        more = {"held": {k: len(pids) for k, pids in homes.items() if pids}}
    else:
        os.kill(_serving(cluster, kind), signal.SIGKILL)
        more = {}
    noticed = run.wait("the run to notice it", lambda: sum(sign in event for event in run.events()) > seen, 60)
    if kind == "node":
        cluster.add_node(num_cpus=2, object_store_memory=STORE)
    whole = time.monotonic()
    steps, updates = run.steps, run.updates
    acts = run.wait("steps again", lambda: run.steps > steps, 120)
    run.wait("all actors again", lambda: run.alive == ACTORS and len(processes(cluster, "Rollout")) == ACTORS, 120)
    run.wait("learning again", lambda: run.updates != updates, 120)
    again = time.monotonic() - whole
    return more | {
        "seconds_to_kill_and_repair": round(whole - killed, 1),
        "struck": killed,
        "whole": whole,
        "seconds_until_noticed": round(noticed, 1),
        "seconds_until_steps": round(acts, 1),
        "seconds_until_all_is_as_before": round(again, 1),
    }


def _serving(cluster: Cluster, kind: str) -> int:
    """The process to kill: a rollout, or the replay or learner that works and not its idle spare."""
    pids = processes(cluster, {"actor": "Rollout"}.get(kind, kind.capitalize()))
    if kind == "actor":
        return pids[0]
    before = {pid: _ticks(pid) for pid in pids}
    while True:  # a spare that has just been started is busy for a while
        time.sleep(1.0)
        worked = {pid: _ticks(pid) - before[pid] for pid in pids}
        *others, most = sorted(pids, key=worked.__getitem__)
        if worked[most] >= 20 and all(worked[pid] < worked[most] / 3 for pid in others):
            return most
        if worked[most] >= 200:
            before = {pid: _ticks(pid) for pid in pids}


def _ticks(pid: int) -> int:
    """Processor time of a process, in hundredths of a second."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


_KINDS = ("Rollout", "Replay", "Learner")


def stalls(history: list[tuple[float, int, int, int]], kills: list[dict[str, Any]]) -> list[float]:
    """Seconds between two increases of the steps, over the whole run, without the times from a kill to its repair."""
    moved = [after[0] for before, after in itertools.pairwise(history) if after[1] != before[1]]
    found = []
    for a, b in itertools.pairwise(moved):
        missing = sum(max(0.0, min(b, kill["whole"]) - max(a, kill["struck"])) for kill in kills)
        found.append(b - a - missing)
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def _raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def verdict(
    cluster: Cluster, run: Run, kills: list[dict[str, Any]], store: list[float], how: dict[str, Any]
) -> dict[str, Any]:
    loaded = tdu.load(run.out, trust=True)
    log, config = loaded.log, loaded.config
    events = run.events()
    taken = sum(path.stat().st_size for path in run.books.glob("steps-*"))
    played = (run.books / "episodes").stat().st_size
    learner = read_log(run.out / "learner.csv")
    ahead = run.checkpoint().ahead
    steps = int(log["steps"][-1])
    resumed = [event for event in events if "resumed from learning step" in event and "checkpoint at step" in event]
    refilled = [event for event in events if "the replay goes on with" in event and "checkpoint at step" in event]
    left = stored()
    pauses = stalls(run.history, kills)
    for kill in kills:
        del kill["struck"], kill["whole"]
    numbers = {
        "episodes_logged": len(log["episode"]),
        "episodes_played": played,
        "episodes_logged_twice": int(len(log["episode"]) - len(set(log["episode_return"].tolist()))),
        "steps_counted": steps,
        "steps_taken": taken,
        "learning_steps": int(learner["learning_steps"][-1]),
        "steps_per_learning_step_stated": PERIOD,
        "steps_ahead_of_learning_at_the_end": ahead,
        "longest_stall_seconds": round(max(pauses), 1),
        "stalls_over_10_seconds": [round(pause, 1) for pause in pauses if pause > 10],
        "learner_resumed_from_checkpoint": len(resumed),
        "replay_resumed_from_checkpoint": len(refilled),
        "greedy_return_after": tdu.evaluate(run.out, episodes=2, trust=True)["mean_return"],
        "object_store_MiB_most": max(store),
        "object_store_MiB_after": left,
    }
    counts = {kind: sum(kill["what"] == kind for kill in kills) for kind in ("actor", "learner", "replay", "node")}
    held = {kind: sum(kind in kill.get("held", {}) for kill in kills) for kind in _KINDS}
    violations = [
        words
        for words, is_wrong in {
            "a stall was too long": numbers["longest_stall_seconds"] > LONGEST_STALL * run.patience,
            "an episode was counted twice": numbers["episodes_logged_twice"] > 0,
            "more was counted than was done": steps > taken or numbers["episodes_logged"] > played,
            "steps in the log do not rise": bool((log["steps"][1:] < log["steps"][:-1]).any()),
            "the learner did not resume from a checkpoint": len(resumed) < counts["learner"],
            "the replay did not resume from a checkpoint": len(refilled) < counts["replay"],
            "a death is not among the events": sum(" died (" in event for event in events)
            < counts["actor"] + counts["learner"] + counts["replay"],
            "a lost node is not among the events": sum("was lost" in event for event in events) < counts["node"],
            "something was left in the object store": left > 0,
            f"the ratio was not held (acting is {ahead} steps ahead)": not -PERIOD <= ahead <= SLACK + ROLLS,
            "the run did not end by being interrupted and saved": how["code"] != 130,
        }.items()
        if is_wrong
    ]
    return {
        "command": f"python benchmarks/ray_chaos.py --minutes {how['minutes']:g} --patience {how['patience']:g}",
        "cluster": {"nodes": 3, "actors": ACTORS, "environments": ACTORS * ENVS, "system_config": HEALTH},
        "config": config.config,
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        **how,
        "kills_of": counts,
        "node_held": held,
        **numbers,
        "violations": violations,
        "kills": kills,
        "events": events,
    }


if __name__ == "__main__":
    sys.exit(main())
