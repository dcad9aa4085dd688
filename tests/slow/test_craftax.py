"""Full Craftax through our adapter equals the library's own steps.

Both call the same compiled step of the library, because it takes most of a minute to compile. The adapter itself is not
compiled here; tests/oracle/test_jax_native.py compiles it with Craftax-Classic.
"""

import jax
import numpy as np

from tdu import environments

NAME = "Craftax-Symbolic-v1"


def raw(number):
    """A key in the format of the library's own code."""
    return jax.random.key_data(jax.random.key(number))


def test_full_craftax_is_the_library_and_its_time_limit_bootstraps(monkeypatch):
    from craftax import craftax_env

    theirs = craftax_env.make_craftax_env_from_name(NAME, auto_reset=False)
    for name in ("reset_env", "step_env"):
        monkeypatch.setattr(theirs, name, jax.jit(getattr(theirs, name)))
    monkeypatch.setattr(craftax_env, "make_craftax_env_from_name", lambda name, auto_reset: theirs)
    env, params = environments.make(f"craftax:{NAME}"), theirs.default_params
    reset, step = env.reset, env.step
    rewards, ends = [], 0
    for episode in range(3):
        state, ours = reset(jax.random.key(episode))
        observation, their_state = theirs.reset_env(raw(episode), params)
        np.testing.assert_allclose(ours.observation, observation, rtol=1e-6)
        for t, action in enumerate(np.random.default_rng(episode).integers(0, env.spec.num_actions, 400)):
            state, ours = step(state, np.int32(action), jax.random.key(t))
            observation, their_state, reward, done, _ = theirs.step_env(raw(t), their_state, np.int32(action), params)
            np.testing.assert_allclose(ours.observation, observation, rtol=1e-5)  # daylight is a cosine
            np.testing.assert_allclose(ours.reward, reward, rtol=1e-6)
            assert (bool(ours.last), float(ours.discount)) == (bool(done), float(not done))
            rewards.append(float(reward))
            if done:
                ends += 1
                break
    assert ends > 0
    assert any(reward > 0 for reward in rewards)
    for changes, discount in (({"timestep": 99_999}, 1.0), ({"timestep": 99_999, "player_health": -9}, 0.0)):
        alive = reset(jax.random.key(0))[0]
        changed = alive.replace(
            **{name: np.asarray(value, getattr(alive, name).dtype) for name, value in changes.items()}
        )
        after = step(changed, np.int32(0), jax.random.key(0))[1]
        assert (bool(after.last), float(after.discount)) == (True, discount)
