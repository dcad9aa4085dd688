"""navix, Craftax and xminigrid give the same steps through our adapters as through their own libraries."""

import sys

import jax
import numpy as np
import pytest

import tdu
from tdu import environments
from tdu.errors import UserError


def raw(number):
    """A key in the form that the libraries use."""
    return jax.random.key_data(jax.random.key(number))


def same(ours, observation, reward, terminated, truncated):
    np.testing.assert_allclose(ours.observation, observation, rtol=1e-6)
    np.testing.assert_allclose(ours.reward, reward, rtol=1e-6)
    assert (bool(ours.last), float(ours.discount)) == (bool(terminated | truncated), float(not terminated))


def test_navix_is_the_library():
    import navix

    env = environments.make("navix:Navix-Dynamic-Obstacles-5x5-v0:max_steps=6,observation=symbolic_first_person")
    observe = navix.observations.symbolic_first_person
    theirs = navix.make("Navix-Dynamic-Obstacles-5x5-v0", max_steps=6, observation_fn=observe)
    reset, step, their_step, their_reset = map(jax.jit, (env.reset, env.step, theirs.step, theirs.reset))
    ends = set()
    for episode in range(10):
        state, ours = reset(jax.random.key(episode))
        moment = their_reset(raw(episode))
        np.testing.assert_array_equal(ours.observation, np.ravel(moment.observation) / np.float32(10))
        for t in range(6):
            action = np.int32((3 * episode + t * t) % 4)
            state, ours = step(state, action, jax.random.key(99))
            moment = their_step(moment, action)
            ended = moment.is_termination(), moment.is_truncation()
            same(ours, np.ravel(moment.observation) / np.float32(10), moment.reward, *ended)
            if ours.last:
                ends.add(float(ours.discount))
                break
    assert ends == {0.0, 1.0}


def test_xminigrid_is_the_library():
    import xminigrid

    env = environments.make("xminigrid:MiniGrid-Empty-5x5")
    theirs, params = xminigrid.make("MiniGrid-Empty-5x5")
    reset, step, their_step, their_reset = map(jax.jit, (env.reset, env.step, theirs.step, theirs.reset))
    ends = set()
    for walk in (np.random.default_rng(1).integers(0, 3, 100), np.full(100, 3)):
        state, ours = reset(jax.random.key(3))
        moment = their_reset(params, raw(3))
        for action in walk.astype(np.int32):
            state, ours = step(state, action, jax.random.key(9))
            moment = their_step(params, moment, action)
            observation = np.ravel(moment.observation) / np.float32(10)
            same(ours, observation, moment.reward, moment.discount == 0, moment.last() & (moment.discount != 0))
            if ours.last:
                ends.add(float(ours.discount))
                break
    assert ends == {0.0, 1.0}


def test_craftax_is_the_library_and_its_time_limit_bootstraps():
    from craftax.craftax_env import make_craftax_env_from_name

    env = environments.make("craftax:Craftax-Classic-Symbolic-v1")
    theirs = make_craftax_env_from_name("Craftax-Classic-Symbolic-v1", auto_reset=False)
    step, params = jax.jit(env.step), theirs.default_params
    state, ours = jax.jit(env.reset)(jax.random.key(1))
    observation, their_state = theirs.reset(raw(1), params)
    np.testing.assert_allclose(ours.observation, observation, rtol=1e-6)
    for t, action in enumerate(np.random.default_rng(0).integers(0, 17, 40).astype(np.int32)):
        state, ours = step(state, action, jax.random.key(t))
        observation, their_state, reward, done, _ = theirs.step(raw(t), their_state, action, params)
        same(ours, observation, reward, done, np.False_)
    for changes, discount in (({"timestep": 9999}, 1.0), ({"timestep": 9999, "player_health": -9}, 0.0)):
        changed = state.replace(**{name: np.int32(value) for name, value in changes.items()})
        after = step(changed, np.int32(0), jax.random.key(0))[1]
        assert (bool(after.last), float(after.discount)) == (True, discount)


def test_an_agent_learns_from_a_compiled_grid():
    options = {"hidden_sizes": (8,), "batch_size": 4, "min_replay": 8, "evaluation_episodes": 0}
    run = tdu.train("navix:Navix-Empty-5x5-v0:max_steps=20", "dqn", episodes=3, **options)
    assert run.log["episode_len"].max() <= 20


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("navix:Navix-DoorKey-5x5", "did you mean"),
        ("navix:Navix-DoorKey-5x5-v0:max_step=9", "did you mean 'max_steps'"),
        ("craftax:Craftax-Pixels-v1", "did you mean"),
        ("xminigrid:MiniGrid-DoorKey-5", "did you mean"),
        ("xminigrid:XLand-MiniGrid-R1-9x9", "ruleset"),
    ],
)
def test_wrong_names_are_one_sentence(env_id, words):
    with pytest.raises(UserError, match=words):
        environments.make(env_id)


@pytest.mark.parametrize("extra", ["navix", "craftax", "xminigrid"])
def test_a_missing_library_is_one_sentence(extra, monkeypatch):
    for module in (extra, f"{extra}.craftax_env"):
        monkeypatch.setitem(sys.modules, module, None)
    example = environments.ADAPTERS[extra].example.replace("Empty", "DoorKey").replace("Classic-", "")
    with pytest.raises(UserError, match=rf"pip install 'tdu\[{extra}\]'"):
        environments.make(example)
