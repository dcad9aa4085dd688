"""A trained agent without its environment: it acts on batches, and it is saved and loaded."""

import gymnasium
import numpy as np
import pytest
import small
from gymnasium import spaces
from test_your_own import Corridor

import tdu

HOW = {"episodes": 8, "evaluation_episodes": 0, "progress": None, "say": lambda words: None}


class Nested(Corridor):
    """Corridor with an observation of two parts."""

    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Dict({"at": self.observation_space, "flag": spaces.Discrete(2)})

    def reset(self, **settings):
        observation, info = super().reset(**settings)
        return {"at": observation, "flag": 1}, info

    def step(self, action):
        observation, *rest = super().step(action)
        return {"at": observation, "flag": 0}, *rest


def examples(env):
    """Five random observations of an environment."""
    space = env.observation_space
    space.seed(0)
    return [space.sample() for _ in range(5)]


@pytest.mark.parametrize(
    "make", [Corridor, Nested, lambda: gymnasium.make("FrozenLake-v1")], ids=["box", "dict", "discrete"]
)
def test_a_saved_agent_acts_without_its_environment(make, tmp_path):
    agent = tdu.train(make(), **HOW, **small.settings("tdu")).agent
    agent.save(tmp_path / "agent.safetensors")
    loaded = tdu.load_agent(tmp_path / "agent.safetensors")
    observations = examples(make())
    for observation in observations:
        np.testing.assert_array_equal(loaded.values(observation), agent.values(observation))
        assert loaded.act(observation) == agent.act(observation)
    batch = observations if isinstance(observations[0], dict) else np.asarray(observations)
    if make is Nested:
        with pytest.raises(tdu.UserError, match=r"shape \(5,\)"):
            agent.act([0] * 5)
        of_vector = {key: np.stack([one[key] for one in observations]) for key in ("at", "flag")}
        assert agent.act(of_vector).tolist() == [agent.act(one) for one in observations]
        for wrong in ({"at": of_vector["at"], "flag": 1}, {"at": of_vector["at"][:2], "flag": of_vector["flag"]}):
            with pytest.raises(tdu.UserError, match="shape"):
                agent.act(wrong)
    with pytest.raises(tdu.UserError, match="no observation"):
        agent.act([] if make is Nested else batch[:0])
    assert isinstance(loaded.act(batch), np.ndarray)
    assert loaded.act(batch).tolist() == [agent.act(one) for one in observations]
    np.testing.assert_allclose(loaded.values(batch), [agent.values(one) for one in observations], rtol=1e-5, atol=1e-6)
    agent.save(tmp_path / "agent.safetensors")  # replaces an earlier agent


@pytest.mark.parametrize("name", ["su", "tdu_ac", "nns", "tdu_r2d2"])
def test_every_kind_of_agent_is_saved(name, tmp_path):
    agent = tdu.train(small.TASK, name, **HOW, **small.settings(name)).agent
    agent.save(tmp_path / "agent")
    loaded = tdu.load_agent(tmp_path / "agent")
    np.testing.assert_array_equal(loaded.values(0), agent.values(0))
    one_hot = np.eye(small.SIZE**2, dtype=np.float32).reshape(-1, small.SIZE, small.SIZE)
    if name == "tdu_r2d2":
        with pytest.raises(tdu.UserError, match="memory"):
            agent.act(one_hot)
    else:
        assert agent.act(one_hot[:3]).tolist() == agent.act(np.arange(3)).tolist() == [agent.act(i) for i in range(3)]


def test_a_wrong_observation_is_the_caller_s(tmp_path):
    agent = tdu.train(Corridor(), **HOW, **small.settings("dqn")).agent
    for wrong, words in (
        (np.zeros(7), "shape"),
        (np.full(2, np.nan), "finite"),
        ("left", "numbers"),
        (None, "numbers"),
    ):
        with pytest.raises(tdu.UserError, match=f"agent.act was given.*{words}") as raised:
            agent.act(wrong)
        assert type(raised.value) is tdu.UserError
        assert "returned" not in str(raised.value)


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "agent.safetensors"
    agent = tdu.train(small.TASK, **HOW, **small.settings("tdu")).agent
    agent.save(path)
    good = path.read_bytes()
    assert b"pickle" not in good
    spoilt = (b"", good[:-4], good[:-1] + bytes([good[-1] ^ 1]), good.replace(b"deep_sea", b"deep_tea"))
    for content in (*spoilt, b"PK" * 500):
        path.write_bytes(content)
        with pytest.raises(tdu.UserError, match="agent"):
            tdu.load_agent(path)
        with pytest.raises(tdu.UserError, match="agent"):
            agent.save(path)
        assert path.read_bytes() == content
    with pytest.raises(tdu.UserError, match="cannot be read"):
        tdu.load_agent(tmp_path / "missing")
    with pytest.raises(tdu.UserError, match="cannot be read"):
        tdu.load_agent(tmp_path)
