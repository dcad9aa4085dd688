"""Shared by the speed benchmarks: measuring in separate processes, bsuite's agent, and the limits.

A worker reports when it is warm, waits for a signal, and measures for some seconds. So several can measure at the same time.
"""

import contextlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HEADS, BATCH, WIDTH = 20, 32, 64
"""The paper's ensemble."""


def measure(script: str, arguments: list[str], count: int = 1, tree: Path | None = None) -> list[dict]:
    """Starts `count` workers of a script, lets all of them warm up, and then measures them at the same time.

    With `tree`, they measure the code of another version of the repository.
    """
    return taking_turns(script, {"it": Contender(arguments, tree, count)}, 1)["it"][0]


class Contender(NamedTuple):
    """One of several programs that are measured in turn."""

    arguments: list[str]
    tree: Path | None = None
    """Another version of the repository to measure."""
    count: int = 1
    """Number of workers at the same time."""


def taking_turns(script: str, contenders: dict[str, Contender], rounds: int) -> dict[str, list[list[dict]]]:
    """Warms up all workers once and then measures one contender after the other, `rounds` times.

    Machines are noisy, so contenders are measured within seconds of each other. Returns each contender's answers by round.
    """
    workers = {name: [Worker(script, c.arguments, c.tree) for _ in range(c.count)] for name, c in contenders.items()}
    for worker in (w for group in workers.values() for w in group):
        worker.wait_until_ready()
    found: dict[str, list[list[dict]]] = {name: [] for name in workers}
    for _ in range(rounds):
        for name, group in workers.items():
            for worker in group:
                worker.go()
            found[name].append([worker.answer() for worker in group])
    for worker in (w for group in workers.values() for w in group):
        worker.end()
    return found


class Worker:
    """A process that measures on request."""

    def __init__(self, script: str, arguments: list[str], tree: Path | None):
        self._command = [sys.executable, script, "--worker", *arguments]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        environment = os.environ | ({} if tree is None else {"PYTHONPATH": str(tree)})
        self._process = subprocess.Popen(self._command, env=environment, **pipes)

    def wait_until_ready(self) -> None:
        if self._process.stdout.readline().strip() != "ready":
            raise SystemExit(f"a worker failed; run {' '.join(self._command)} to see why.")

    def go(self) -> None:
        """Starts one measurement."""
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def answer(self) -> dict:
        """The measurement."""
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        self._process.communicate()


@contextlib.contextmanager
def checked_out(commit: str | None) -> Iterator[Path | None]:
    """A temporary folder with the repository at that commit."""
    if commit is None:
        yield None
        return
    root = Path(__file__).parent.parent
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "-C", root, "worktree", "add", "--quiet", "--detach", tree, commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "-C", root, "worktree", "remove", "--force", tree], check=True)


def timed(advance: Callable[[], int], seconds: float) -> None:
    """Reports that it is ready, and measures on each request; `advance` returns the number of steps it made."""
    print("ready", flush=True)
    for _ in sys.stdin:
        started, worked, steps = time.perf_counter(), time.process_time(), 0
        while (elapsed := time.perf_counter() - started) < seconds:
            steps += advance()
        processor = (time.process_time() - worked) / steps
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rates = {"steps_per_second": steps / elapsed, "processor_ms": 1e3 * processor, "megabytes": round(megabytes)}
        print(json.dumps(rates), flush=True)


def bsuite_loop(env: Any, agent: Any) -> Callable[[], int]:
    """One step of bsuite's own loop per call."""
    now = [env.reset()]

    def step() -> int:
        if now[0].last():
            now[0] = env.reset()
        action = agent.select_action(now[0])
        after = env.step(action)
        agent.update(now[0], action, after)
        now[0] = after
        return 1

    return step


def boot_dqn(env: Any) -> Any:
    """bsuite's boot_dqn for an environment, its network and optimiser set to the paper's values."""
    warnings.simplefilter("ignore")
    import haiku as hk
    import jax
    import optax
    from bsuite.baselines.jax.boot_dqn.agent import BootstrappedDqn

    actions = env.action_spec().num_values

    def network(inputs):
        x = hk.Flatten()(inputs)
        prior = hk.nets.MLP([WIDTH, WIDTH, actions])(x)
        return hk.nets.MLP([WIDTH, WIDTH, actions])(x) + 3.0 * jax.lax.stop_gradient(prior)

    return BootstrappedDqn(
        env.observation_spec(), env.action_spec(), network, num_ensemble=HEADS, batch_size=BATCH, discount=0.99,
        replay_capacity=10_000, min_replay_size=128, sgd_period=1, target_update_period=4,
        optimizer=optax.adam(1e-3), mask_prob=1.0, noise_scale=0.0,
    )  # fmt: skip


def compiled(
    name: str, env_id: str, warm_up: int, chunk: int = 1000, preset: str = "paper", **options: Any
) -> Callable[[], int]:
    """Our agent on a compiled environment, as in `tdu train`, after `warm_up` steps. Each call makes a chunk of steps."""
    from tdu import agents, environments
    from tdu.run.processes import use_one_core
    from tdu.run.runners.compiled import CompiledRunner
    from tdu.run.runners.protocol import Budget

    use_one_core()
    _stay_on_one_core()
    env = environments.make(env_id)
    agent = agents.find(name).make(env.spec, agents.configure(name, options, preset))
    runner = CompiledRunner(env, agent, 0, budget=Budget(None), until="budget", chunk=chunk)

    def advance() -> int:
        runner.advance()
        return chunk

    while runner.clock.steps < warm_up:
        advance()
    return advance


def _stay_on_one_core() -> None:
    """`tdu train` also does this. Older commits do not."""
    with contextlib.suppress(ImportError):
        from tdu.run.one_core import stay_on_one_core

        stay_on_one_core()


def stepwise(name: str, bsuite_id: str, **options: Any) -> tuple[Any, Callable[[], int]]:
    """Our agent on bsuite's own environment, as in `tdu train`: the runner, and a function that plays an episode."""
    from tdu import agents, environments
    from tdu.run.processes import use_one_core
    from tdu.run.runners.protocol import Budget
    from tdu.run.runners.stepwise import StepwiseRunner

    use_one_core()
    _stay_on_one_core()
    env = environments.make(f"bsuite:{bsuite_id}", 0)
    agent = agents.find(name).make(env.spec, agents.configure(name, options))
    runner = StepwiseRunner(env, agent, 0, budget=Budget(None), until="budget")

    def advance() -> int:
        before = runner.clock.steps
        runner.advance()
        return runner.clock.steps - before

    return runner, advance


def products(heads: int = HEADS, batch: int = BATCH, width: int = WIDTH) -> Callable[[], int]:
    """The products with the hidden layers of a learning step: two forward, two backward. A call makes a hundred steps."""
    from tdu.run.processes import use_one_core

    use_one_core()
    import jax
    import jax.numpy as jnp

    key = jax.random.key(0)
    x, w = jax.random.normal(key, (heads, batch, width)), jax.random.normal(key, (heads, width, width)) / 8

    @jax.jit
    def many(x, w):
        def body(_, both):
            x, w = both
            h = x @ w
            target = h @ w
            back = target @ w
            gradient = jnp.swapaxes(h, 1, 2) @ back
            return back * 1e-3, w + 1e-9 * gradient

        return jax.lax.fori_loop(0, 100, body, (x, w))

    def call() -> int:
        jax.block_until_ready(many(x, w))
        return 100

    call()
    return call


def bytes_per_second() -> float:
    """Bytes per second that one core reads and writes outside the caches, best of several tries."""
    import numpy as np

    a, b = np.zeros(1 << 24, np.float32), np.zeros(1 << 24, np.float32)
    best = 0.0
    for _ in range(8):
        started = time.perf_counter()
        np.copyto(a, b)
        best = max(best, 2 * a.nbytes / (time.perf_counter() - started))
    return best


def bytes_of_a_step(heads: int, batch: int, width: int) -> int:
    """Bytes that a learning step on one-hot observations has to move at least.

    Each weight has four numbers. Those of the rows of s and of the hidden layer are read and written, those of the rows of s'
    are read. Intermediate results could stay in a cache.
    """
    row, hidden = heads * width, heads * width * width
    return 4 * (12 * batch * row + 8 * hidden)


def machine() -> dict[str, Any]:
    """The machine that was measured."""
    return {"cores": os.cpu_count() or 1, "processor": _processor(), "python": platform.python_version()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
