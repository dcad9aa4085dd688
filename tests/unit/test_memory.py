"""An agent's memory is computed before the agent is made, and an agent that does not fit is refused."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from tdu import agents, cli, environments, memory
from tdu.environments.vector import JaxVector
from tdu.errors import UserError
from tdu.run.runners.protocol import Budget
from tdu.run.runners.stepwise import StepwiseRunner


def init(key):
    """A replay of 1,000 rows of 100 bytes, and 400 bytes of weights."""
    del key
    return {"ring": jnp.zeros((1000, 25)), "weights": jnp.zeros((10, 10))}


def test_what_fits_is_not_reported():
    assert memory.check_fits(init, 1000, room=200_000) == ()


def test_what_does_not_fit_is_refused_with_the_largest_that_does():
    with pytest.raises(UserError, match=r"replay of 1,000 transitions.*largest replay_capacity.* 496\b"):
        memory.check_fits(init, 1000, room=50_000)
    with pytest.raises(UserError, match="smaller networks"):
        memory.check_fits(init, 1000, room=300)


def test_a_large_replay_is_reported():
    (sentence,) = memory.check_fits(lambda key: jnp.zeros((10**9, 2), jnp.int8), 10**9, room=1e10)
    assert "2.0 GB" in sentence


def test_free_memory_is_at_most_the_machine_s():
    assert 0 < memory.available() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_device_without_its_own_memory_has_the_machine_s(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 12_345)
    own = "bytes_limit" in (jax.devices()[0].memory_stats() or {})
    assert own or memory.on_device() == 12_345


def test_the_command_line_refuses_before_it_starts(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    out = tmp_path / "run"
    assert cli.main(["train", "deep_sea:size=10", "--replay-capacity", "1000000", "--out", str(out)]) == 2
    assert "are free" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="needs Linux")
def test_a_run_in_python_holds_its_replay_once():
    """The runner compiles on a temporary state, which never exists at the same time as the run's own."""
    env = JaxVector(environments.make("catch/0"), 0, size=1)
    capacity = 2_000_000
    settings = {"replay_capacity": capacity, "min_replay": 4, "batch_size": 4, "hidden_sizes": (4,)}
    agent = agents.find("dqn").make(env.spec, agents.configure("dqn", settings))
    replay = 2 * 200 * capacity
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak()
    StepwiseRunner(env, agent, 0, budget=Budget(1), until="budget")
    assert replay < peak() - before < 1.6 * replay


def peak():
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])
