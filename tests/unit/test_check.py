"""Faults of an environment are found and reported, by `tdu check` and at the start of each run."""

import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

import tdu
from tdu import cli, environments
from tdu.environments.checks import check
from tdu.errors import EnvironmentFault, UserError
from tdu.types import EnvSpec

BOX = spaces.Box(-1, 1, (2,), np.float32)


class Walk(gymnasium.Env):
    """Ten steps to the right. Each test breaks one part of it."""

    action_space = spaces.Discrete(2)

    def __init__(self, space=BOX, see=lambda at, rng: np.array([at % 11 / 10, 0.0], np.float32), limit=10, **returned):
        self.observation_space, self.see, self.limit, self.returned = space, see, limit, returned

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.see(0, self.np_random), {}

    def step(self, action):
        self.at += 1
        over = self.returned.get("over", self.at == self.limit)
        return (
            self.see(self.at, self.np_random),
            self.returned.get("reward", 1.0),
            over,
            False,
            self.returned.get("info", {}),
        )


class NoSeed(Walk):
    def reset(self):
        return super().reset()


class Answers(Walk):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def step(self, action):
        return self.answer


class Unpacks(Walk):
    def step(self, action):
        _observation, _reward = (1, 2, 3)


@pytest.mark.parametrize(
    ("value", "success"),
    [(True, True), (np.False_, False), (np.array(True), True), (1.0, True), (np.int64(0), False), (None, None)],
)
def test_success_is_a_truth_value(value, success):
    made = environments.make(Walk(info={"is_success": value}, limit=1))
    made.start()
    assert made.step(np.array([0])).ended[0].success is success


def found(env):
    findings = check(env, steps=60)
    return " ".join(findings.problems), " ".join(findings.hints)


def test_a_good_environment_has_no_problem():
    noisy = Walk(see=lambda at, rng: np.array([at / 10, rng.random()], np.float32))
    findings = check(noisy, steps=60)
    assert (findings.problems, findings.hints) == ([], [])
    assert "10 steps" in " ".join(findings.facts)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (Walk(see=lambda at, rng: np.array([0, at], np.float32)), r"observation\[1\] is 2.0.*-1.0 to 1.0"),
        (Walk(see=lambda at, rng: np.array([0, 1])), "dtype int64.*astype"),
        (Walk(see=lambda at, rng: np.array([0.0, None])), "not an array of numbers"),
        (Walk(see=lambda at, rng: np.array([np.nan if at == 3 else 0, 0])), "nan at index.*step 3 of episode 1"),
        (Walk(over="no"), "terminated='no'.*True or False"),
        (Walk(reward="much"), "reward 'much'; it must be a single number"),
        (Walk(info={"is_success": "yes"}), "is_success.*'yes'"),
        (Walk(info={"is_success": 0.5}), "is_success.*0.5"),
        (Walk(info={"is_success": np.ones(2)}), "is_success"),
        (NoSeed(), r"unexpected keyword argument 'seed'; write def reset\(self, \*, seed=None, options=None\)"),
        (TimeLimit(NoSeed(), 5), "argument 'seed'; write def reset"),
        (TimeLimit(Answers((0, 0.0, True, {})), 5), r"Answers.step returned 4 values; .*\(observation, reward"),
        (TimeLimit(Answers((0,) * 6), 5), "Answers.step returned a wrong number"),
        (TimeLimit(Answers(None), 5), "Answers.step returned one value, of type NoneType"),
        (TimeLimit(Unpacks(), 5), r"raised ValueError.*test_check.py, line \d+"),
        (Walk(spaces.Dict(phase=spaces.Discrete(4)), lambda at, rng: {"phase": 4}), "4 as part phase; .*0 to 3"),
        (Walk(info=None), "must be a dict"),
        (Walk(see=lambda at, rng: np.random.random(2).astype(np.float32)), "same seed.*after reset.*np_random"),  # noqa: NPY002
        (Walk(spaces.Dict(x=BOX), lambda at, rng: {"y": 0}), "part x is missing"),
        (
            Walk(spaces.Tuple([BOX, BOX]), lambda at, rng: (np.ones(2, np.float32), np.full(2, 3.0))),
            r"observation\[1\]\[0\]",
        ),
        (Walk(spaces.Discrete(3), lambda at, rng: 7), "states 0 to 2, not 7"),
    ],
)
def test_what_is_wrong_is_named(env, words):
    problems, _ = found(env)
    assert re.search(words, problems), problems


@pytest.mark.parametrize(
    ("env", "word"),
    [
        (Walk(limit=10**9), "TimeLimit"),
        (Walk(reward=0.0), "no reward"),
        (Walk(see=lambda at, rng: np.zeros(2, np.float32)), "never changed"),
        (Walk(spaces.Box(0, 255, (4, 4, 3), np.float32), lambda at, rng: np.full((4, 4, 3), 20.0 * at)), "uint8"),
    ],
)
def test_what_may_be_intended_is_a_hint(env, word):
    problems, hints = found(env)
    assert problems == ""
    assert word in hints


@pytest.mark.parametrize(
    "env",
    [
        Walk(see=lambda at, rng: np.zeros(3, np.float32)),
        Walk(see=lambda at, rng: np.array([0.0, None])),
        Walk(spaces.Dict(x=BOX), lambda at, rng: {"y": 0}),
        Walk(spaces.Discrete(3), lambda at, rng: 7),
    ],
)
def test_a_mistake_is_reported_once(env):
    findings = check(env, steps=60)
    assert len(findings.problems) == 1
    assert findings.hints == []


@pytest.mark.parametrize(
    "env", [Walk(see=lambda at, rng: np.zeros(2, np.float32), limit=1), "key_door:size=4", "gym:FrozenLake-v1"]
)
def test_what_is_right_gets_no_hint(env):
    findings = check(env, steps=200)
    assert findings.problems == []
    assert not re.search("changed|image|ended", " ".join(findings.hints))


def test_compiled_environments_are_checked_too():
    assert check("deep_sea:size=4", steps=40).problems == []


def test_the_command_has_exit_code_2_where_something_is_wrong(tmp_path, monkeypatch, capsys):
    (tmp_path / "boxes.py").write_text(
        "import gymnasium, numpy\n"
        "class Far(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Box(0, 1, (1,))\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None): return numpy.full(1, 5.0), {}\n"
        "    def step(self, action): return numpy.full(1, 5.0), 0.0, True, False, {}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "python:boxes:Far", "--steps", "20"]) == 2
    assert "observation[0] is 5.0" in capsys.readouterr().err
    assert cli.main(["check", "gym:CartPole-v1", "--steps", "20"]) == 0
    assert "No problem" in capsys.readouterr().out


FAST = {"hidden_sizes": (4,), "min_replay": 8, "batch_size": 4, "evaluation_episodes": 0}


def test_a_run_names_each_kind_of_mistake_once():
    said = []
    far = Walk(see=lambda at, rng: np.array([0, at], np.float32))
    tdu.train(far, "dqn", episodes=3, say=said.append, **FAST)
    assert sum("observation[1] is" in words for words in said) == 1


class Switches(Walk):
    """Two choices per step. The right combination ends the episode."""

    action_space = spaces.MultiDiscrete([2, 3], start=[0, 5])

    def step(self, action):
        assert self.action_space.contains(action)
        self.at += 1
        good = tuple(action) == (1, 6)
        return self.see(self.at, self.np_random), float(good), good or self.at == 10, False, {}


def test_several_choices_at_once_are_their_combinations():
    said = []
    run = tdu.train(Switches(), "dqn", episodes=5, say=said.append, **FAST)
    assert run.agent.spec.num_actions == 6
    assert any("2 × 3" in words for words in said)
    assert Switches.action_space.contains(run.agent.act(np.zeros(2, np.float32)))
    spec = EnvSpec("x", (2,), 6, actions=((0, 2), (5, 3)))
    assert [spec.own_action(a).tolist() for a in (0, 4)] == [[0, 5], [1, 6]]
    vector = environments.make(gymnasium.vector.SyncVectorEnv([Switches] * 2))
    vector.start()
    assert vector.step(np.array([4, 0])).after.reward.tolist() == [1.0, 0.0]


def test_a_part_that_the_user_forgot_is_not_the_environments_fault():
    two = Walk(
        spaces.Dict(left=BOX, right=BOX), lambda at, rng: dict.fromkeys(("left", "right"), np.zeros(2, np.float32))
    )
    agent = tdu.train(two, "dqn", episodes=2, say=lambda words: None, **FAST).agent
    with pytest.raises(UserError, match=r"agent.act was given.*right") as mistake:
        agent.act({"left": np.zeros(2)})
    assert not isinstance(mistake.value, EnvironmentFault)
    two.see = lambda at, rng: {"left": np.zeros(2, np.float32)}
    with pytest.raises(EnvironmentFault, match=r"Walk returned.*right"):
        tdu.train(two, "dqn", episodes=2, **FAST)


class Unfinished(gymnasium.Env):
    action_space = spaces.Discrete(2)


def make():
    return Walk()


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (Unfinished(), "Unfinished has no observation_space"),
        (TimeLimit(Unfinished(), 5), "Unfinished has no observation_space"),
        (gymnasium.Env(), "Env has no observation_space and no action_space"),
        (make, r"function.*make\(\) instead of make"),
        (5, "type int is neither"),
    ],
)
def test_what_is_no_environment_is_named(env, words):
    with pytest.raises(UserError, match=words):
        environments.make(env)


def test_too_many_combinations_are_refused():
    many = Walk()
    many.action_space = spaces.MultiDiscrete([8, 8, 9])
    with pytest.raises(UserError, match=r"576 combinations.*512"):
        environments.make(many)


def test_a_vector_environment_takes_several_choices():
    class Together(gymnasium.vector.VectorEnv):
        num_envs, single_observation_space, single_action_space = 2, BOX, spaces.MultiDiscrete([2, 3])
        metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}  # noqa: RUF012

        def reset(self, *, seed=None, options=None):
            return np.zeros((2, 2), np.float32), {}

        def step(self, actions):
            return np.zeros((2, 2), np.float32), actions[:, 1].astype(float), np.zeros(2, bool), np.zeros(2, bool), {}

    env = environments.make(Together())
    env.start()
    assert env.step(np.array([5, 1])).after.reward.tolist() == [2.0, 1.0]


def test_a_run_stops_at_a_number_that_is_not_finite_and_says_where():
    with pytest.raises(EnvironmentFault, match=r"nan at index \[0\], in step 2 of episode 1"):
        tdu.train(Walk(see=lambda at, rng: np.array([np.nan if at == 2 else 0, 0])), "dqn", episodes=1, **FAST)
