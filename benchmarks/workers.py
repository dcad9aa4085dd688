"""What the speed benchmarks share: measuring in processes of their own, bsuite's agent, and the limit.

A worker says when it is warm, waits for the word, and measures for some seconds, so that several can be measured at once.
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
from typing import Any

HEADS, BATCH, WIDTH = 20, 32, 64
"""The paper's ensemble."""


def measure(script: str, arguments: list[str], count: int = 1, tree: Path | None = None) -> list[dict]:
    """Starts `count` workers of a script, lets all of them warm up, and then measures them at the same time.

    With `tree`, another version of the repository: its own script, measuring its own code.
    """
    script = script if tree is None else str(tree / "benchmarks" / Path(script).name)
    command = [sys.executable, script, "--worker", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    environment = os.environ | ({} if tree is None else {"PYTHONPATH": str(tree)})
    processes = [subprocess.Popen(command, env=environment, **pipes) for _ in range(count)]
    for process in processes:
        if process.stdout.readline().strip() != "ready":
            raise SystemExit(f"a worker failed; run {' '.join(command)} to see why.")
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return [json.loads(process.communicate()[0]) for process in processes]


@contextlib.contextmanager
def checked_out(commit: str | None) -> Iterator[Path | None]:
    """The repository as it was at that commit, in a folder of its own for as long as it is needed."""
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
    """Tells the parent that it is ready, waits for its word, and measures; `advance` returns how many steps it made."""
    print("ready", flush=True)
    sys.stdin.readline()
    started, steps = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < seconds:
        steps += advance()
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"steps_per_second": steps / elapsed, "megabytes": round(megabytes)}))


def bsuite_loop(env: Any, agent: Any) -> Callable[[], int]:
    """One step of bsuite's own loop for each call."""
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


def compiled(name: str, size: int, warm_up: int) -> Callable[[], int]:
    """An agent of ours on Deep Sea, as `tdu train` runs it, after so many steps."""
    from tdu import agents, environments
    from tdu.runners.compiled import CHUNK, CompiledRunner
    from tdu.runners.parallel import use_one_core
    from tdu.runners.protocol import Budget

    use_one_core()
    env = environments.make(f"deep_sea:size={size}")
    agent = agents.find(name).make(env.spec, agents.configure(name, {}))
    runner = CompiledRunner(env, agent, 0, budget=Budget(None), stop=False)

    def advance() -> int:
        runner.advance()
        return CHUNK

    while runner.clock.steps < warm_up:
        advance()
    return advance


def stepwise(name: str, bsuite_id: str, **options: Any) -> tuple[Any, Callable[[], int]]:
    """An agent of ours on bsuite's own environment, as `tdu train` runs it: the runner, and an episode for each call."""
    from tdu import agents, environments
    from tdu.runners.parallel import use_one_core
    from tdu.runners.protocol import Budget
    from tdu.runners.stepwise import StepwiseRunner

    use_one_core()
    env = environments.make(f"bsuite:{bsuite_id}", 0)
    agent = agents.find(name).make(env.spec, agents.configure(name, options))
    runner = StepwiseRunner(env, agent, 0, budget=Budget(None), stop=False)

    def advance() -> int:
        before = runner.clock.steps
        runner.advance()
        return runner.clock.steps - before

    return runner, advance


def products() -> Callable[[], int]:
    """Only the products with the hidden layers of a learning step: two forward, two backward. A thousand for each call."""
    from tdu.runners.parallel import use_one_core

    use_one_core()
    import jax
    import jax.numpy as jnp

    key = jax.random.key(0)
    x, w = jax.random.normal(key, (HEADS, BATCH, WIDTH)), jax.random.normal(key, (HEADS, WIDTH, WIDTH)) / 8

    @jax.jit
    def many(x, w):
        def body(_, both):
            x, w = both
            h = x @ w
            target = h @ w
            back = target @ w
            gradient = jnp.swapaxes(h, 1, 2) @ back
            return back * 1e-3, w + 1e-9 * gradient

        return jax.lax.fori_loop(0, 1000, body, (x, w))

    def call() -> int:
        jax.block_until_ready(many(x, w))
        return 1000

    call()
    return call


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    return {"cores": os.cpu_count() or 1, "processor": _processor(), "python": platform.python_version()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
