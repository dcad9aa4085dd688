"""Memory: what an agent needs is known before it is made, and what does not fit is refused."""

import jax.numpy as jnp
import pytest

from tdu import cli, memory
from tdu.errors import UserError


def init(key):
    """A replay of 1,000 rows of 100 bytes, and 400 bytes beside it."""
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


def test_available_memory_is_positive():
    assert 0 < memory.on_device() <= memory.available() + 1e12


def test_the_command_line_refuses_before_it_starts(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    out = tmp_path / "run"
    assert cli.main(["train", "deep_sea:size=10", "--replay-capacity", "1000000", "--out", str(out)]) == 2
    assert "are free" in capsys.readouterr().err
    assert not out.exists()
