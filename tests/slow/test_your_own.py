"""Users' own environments: Gymnasium, gymnax, functions and images. Also our environments through Gymnasium."""

import json
import sys
from types import SimpleNamespace

import dm_env
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv

import tdu
from tdu import agents, environments, values
from tdu.adam import Adam
from tdu.environments.python import of_dm_env
from tdu.errors import EnvironmentFault, RunError, UserError
from tdu.networks import mlp, torsos
from tdu.run import observers
from tdu.types import EnvSpec, TimeStep

FAST = {"hidden_sizes": (8,), "exploiters": 2, "explorers": 1, "batch_size": 4, "min_replay": 8}


class Alone:
    """An environment as the runner steps it, without the vector axis."""

    def __init__(self, env, seed=0):
        self.vector = environments.make(env, seed)
        self.spec = self.vector.spec

    def reset(self):
        return self.vector.start()[0]

    def step(self, action):
        return jax.tree.map(lambda x: x[0], self.vector.step(np.array([action])).after)


class Corridor(gymnasium.Env):
    """Walk right; the time limit is five steps."""

    action_space = spaces.Discrete(2, start=1)

    def __init__(self, observation_space=None, fault=None):
        self.observation_space = observation_space or spaces.Box(-1, 9, (2,), np.float64)
        self.fault, self.seeds = fault, []

    def observe(self):
        noise = self.np_random.random()
        return np.array([self.at, noise])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.at, self.time = 0, 0
        return self.observe(), {}

    def step(self, action):
        assert action in (1, 2)
        self.at, self.time = self.at + (1 if action == 2 else 0), self.time + 1
        if self.fault == "raise" and self.time == 3:
            raise RuntimeError("the motor is hot")
        observation = self.observe()
        if self.fault == "nan":
            observation[0] = np.nan
        if self.fault == "shape" and self.time == 2:
            observation = np.zeros(3)
        return observation, float(self.at == 4), self.at == 4, self.time == 5, {}


def test_actions_are_called_what_the_environment_calls_them():
    """Corridor's actions are 1 and 2."""
    for env in (Corridor(), SyncVectorEnv([Corridor] * 2)):
        run = tdu.train(env, "dqn", episodes=5, evaluation_episodes=0, say=lambda words: None)
        observation = np.array([1.0, 0.5])
        assert run.agent.act(observation) == 1 + int(np.argmax(run.agent.values(observation)))
    with pytest.raises(UserError, match="unknown agent '3'"):
        tdu.train(Corridor(), agent=3)


def test_a_time_limit_bootstraps_and_a_true_end_does_not():
    env = Alone(Corridor(), seed=3)
    env.reset()
    steps = [env.step(0) for _ in range(5)]
    assert [bool(s.last) for s in steps] == [False] * 4 + [True]
    assert [float(s.discount) for s in steps] == [1.0] * 5
    steps = [env.step(1) for _ in range(4)]
    assert bool(steps[-1].last)
    assert float(steps[-1].discount) == 0.0


def test_one_seed_twice_is_one_run_on_gymnasium():
    a, b, c = (tdu.train(Corridor(), seed=s, episodes=8, evaluation_episodes=0, **FAST) for s in (1, 1, 2))
    np.testing.assert_array_equal(a.log["loss"], b.log["loss"])
    assert not np.array_equal(a.log["loss"], c.log["loss"])


def test_every_episode_has_a_seed_of_its_own():
    env = Corridor()
    made = environments.gymnasium.adapt(env, "corridor", 3)
    for episode in (0, 1, 0):
        made.reset(episode)
    assert env.seeds[0] == env.seeds[2] != env.seeds[1]


@pytest.mark.parametrize(
    ("fault", "words"),
    [("raise", "raised RuntimeError: the motor is hot"), ("nan", "not finite"), ("shape", r"shape \(3,\)")],
)
def test_a_broken_environment_is_reported(fault, words):
    with pytest.raises(EnvironmentFault, match=words):
        tdu.train(Corridor(fault=fault), episodes=2, **FAST)


def test_spaces_that_no_agent_can_take_are_refused():
    with pytest.raises(UserError, match="does not have discrete actions"):
        environments.make("gym:Pendulum-v1")
    with pytest.raises(UserError, match="observes Dict, not one array"):
        environments.make(Corridor(spaces.Dict(x=spaces.Text(2))))
    with pytest.raises(UserError, match="Gymnasium cannot make 'CartPol-v1'"):
        environments.make("gym:CartPol-v1")
    with pytest.raises(UserError, match="neither an environment's id nor"):
        environments.make(object())


def test_a_gymnasium_id_with_discrete_observations_is_one_hot():
    env = Alone("gym:FrozenLake-v1")
    assert env.spec.num_states == 16
    assert env.reset().dtype == np.int32
    assert env.spec.num_actions == 4


def test_bytes_travel_as_bytes():
    class Camera(Corridor):
        def observe(self):
            return np.full((4, 4, 1), 255, np.uint8)

    env = Alone(Camera(spaces.Box(0, 255, (4, 4, 1), np.uint8)))
    assert env.spec.dtype == "uint8"
    for seen in (env.reset(), env.step(0).observation):
        assert seen.dtype == np.uint8
        np.testing.assert_array_equal(seen, np.full((4, 4, 1), 255))


class Scripted(dm_env.Environment):
    """A dm_env environment that returns given time steps."""

    def __init__(self, observation=0.0, reward=0.0, discount=1.0, spec=None, answer=None):
        self.spec = spec or specs.Array((), np.float64)
        self.observation = observation
        self.answer = answer or (lambda: dm_env.TimeStep(dm_env.StepType.MID, reward, discount, observation))

    def observation_spec(self):
        return self.spec() if callable(self.spec) else self.spec

    def action_spec(self):
        return specs.DiscreteArray(2)

    def reset(self):
        scalar = isinstance(self.spec, specs.Array) and self.spec.shape == ()
        return dm_env.restart(np.zeros((), self.spec.dtype) if scalar else self.observation)

    def step(self, action):
        return self.answer()


def leave():
    sys.exit(7)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (Scripted(answer=lambda: None), "returned nothing, not a dm_env time step"),
        (Scripted(answer=lambda: [1, 2]), "returned an object of type list"),
        (Scripted(reward="3"), "returned reward .*must be a single number"),
        (Scripted(reward=1j), "returned reward .*must be a single number"),
        (Scripted(reward=10**400), "returned reward .*must be a single number"),
        (Scripted(reward=None), "returned reward .*must be a single number"),
        (Scripted(reward=np.zeros(2)), "returned reward .*must be a single number"),
        (Scripted(discount=50.0), "between 0 and 1"),
        (Scripted(observation="north"), "not an array of numbers"),
        (Scripted(observation=[[1], [1, 2]]), "not an array of numbers"),
        (Scripted(answer=lambda: {}["map"]), r"raised KeyError: 'map' \(test_your_own.py, line \d+\)"),
        (Scripted(answer=leave), "raised SystemExit: 7"),
        (Scripted(answer=lambda: SimpleNamespace(observation=0, reward=0, discount=1, last=True)), "not a dm_env"),
    ],
)
def test_invalid_time_steps_are_reported(env, words):
    made = Alone(env)
    made.reset()
    with pytest.raises(EnvironmentFault, match=words):
        made.step(0)


class Wrong(gymnasium.Env):
    """Breaks one rule of Gymnasium's interface."""

    observation_space, action_space = spaces.Discrete(3), spaces.Discrete(2)

    def __init__(self, first=(0, {}), then=(0, 0.0, False, False, {})):
        self.first, self.then = first, then

    def reset(self, *, seed=None, options=None):
        return self.first

    def step(self, action):
        return self.then() if callable(self.then) else self.then


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (
            Wrong(first=0),
            r"Wrong.reset returned one value, of type int; Gymnasium's reset returns \(observation, info\)",
        ),
        (Wrong(then=(0, 0.0, True, {})), "Wrong.step returned 4 values"),
        (Wrong(then=lambda: np.stack([np.zeros(2), np.zeros(3)])), r"same shape \(test_your_own.py, line \d+\)"),
        (Wrong(then=(0, float("nan"), False, False, {})), "returned reward nan; it must be finite"),
    ],
)
def test_faults_of_gymnasium_environments_are_reported(env, words, tmp_path):
    options = {"out": tmp_path / "run", "say": lambda words: None, "hidden_sizes": (4,)}
    for _ in range(2):  # a run that never began leaves no folder
        with pytest.raises(EnvironmentFault, match=words):
            tdu.train(env, "dqn", steps=50, **options)
        assert not (tmp_path / "run").exists()


def test_a_run_that_has_something_is_kept(tmp_path):
    answers = [(0, 1.0, True, False, {})] * 30 + [None]
    env = Wrong(then=lambda: answers.pop(0))
    options = {"out": tmp_path / "run", "say": lambda words: None, "hidden_sizes": (4,)}
    with pytest.raises(EnvironmentFault, match="one value, of type NoneType"):
        tdu.train(env, "dqn", steps=50, **options)
    assert (tmp_path / "run" / "config.json").exists()
    with pytest.raises(RunError, match=r"resume=True; it has no checkpoint, so it would start from the beginning\)"):
        tdu.train(env, "dqn", steps=50, **options)


def test_episodes_that_never_end_are_reported(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(observers, "NO_END_STEPS", 100)

    def stop(report):
        if report.steps > 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tdu.train(Wrong(), "dqn", say=said.append, progress=stop, hidden_sizes=(4,))
    assert len([words for words in said if "no episode has ended in" in words]) == 1
    tdu.train(Wrong(), "dqn", steps=200, say=said.append, out=tmp_path / "run", hidden_sizes=(4,))
    with pytest.raises(UserError, match="has ended yet"):
        tdu.evaluate(tmp_path / "run", env=Wrong())


def test_an_environment_that_cannot_be_read():
    with pytest.raises(UserError, match="raised RuntimeError: no camera"):
        environments.make(Scripted(spec=lambda: (_ for _ in ()).throw(RuntimeError("no camera"))))
    with pytest.raises(UserError, match=r"write Scripted\(\)"):
        environments.make(Scripted)
    with pytest.raises(UserError, match="not one array"):
        environments.make(
            type("Blind", (Corridor,), {"__init__": lambda self: setattr(self, "observation_space", None)})()
        )


def test_dm_env_s_bytes_and_states_are_taken_as_gymnasium_s():
    image = np.full((4, 4, 1), 255, np.uint8)
    env = Alone(Scripted(image, spec=specs.Array((4, 4, 1), np.uint8)))
    np.testing.assert_array_equal(env.reset(), image)
    for odd in ([-1.0, 300.0], [1.5, 2.0], "north", None):
        with pytest.raises(EnvironmentFault, match="observation"):
            Alone(Scripted(odd, spec=specs.Array((2,), np.uint8))).reset()
    np.testing.assert_array_equal(Alone(Scripted([7.0, 255], spec=specs.Array((2,), np.uint8))).reset(), [7, 255])
    env = Alone(Scripted(3, spec=specs.DiscreteArray(7)))
    assert env.spec.num_states == 7
    env.reset()
    assert env.step(0).observation == 3
    env = Alone(Scripted(7, spec=specs.DiscreteArray(7)))
    env.reset()
    with pytest.raises(EnvironmentFault, match="has states 0 to 6, not 7"):
        env.step(0)


def test_several_discrete_numbers_are_an_array():
    class Dice(Corridor):
        def observe(self):
            return np.array([1, 2, 0])

    env = Alone(Dice(spaces.MultiDiscrete([3, 3, 3])))
    assert env.spec.num_states is None
    np.testing.assert_array_equal(env.reset(), [1, 2, 0])


def test_gymnax_is_compiled_and_bootstraps_at_its_time_limit():
    env = environments.make("gymnax:CartPole-v1")
    assert (env.spec.observation_shape, env.spec.num_actions) == ((4,), 2)
    assert isinstance(env, tdu.types.Environment)
    mountain = environments.make("gymnax:MountainCar-v0")

    def walk(key):
        state, timestep = mountain.reset(key)

        def step(carry, t):
            state, over = carry
            state, after = mountain.step(state, jnp.int32(1), key)
            return (state, over | after.last), (after.last, after.discount)

        return jax.lax.scan(step, (state, timestep.last), jnp.arange(210))[1]

    last, discount = jax.jit(walk)(tdu.run_key(0))
    first = int(np.argmax(last))
    assert first == 199
    assert float(discount[first]) == 1.0
    with pytest.raises(UserError, match="did you mean"):
        environments.make("gymnax:Breakout-MinAta")
    with pytest.raises(UserError, match="discrete actions"):
        environments.make("gymnax:Pendulum-v1")


def test_an_agent_learns_from_images():
    options = {"hidden_sizes": (8,), "batch_size": 4, "min_replay": 8, "replay_capacity": 100}
    run = tdu.train("gymnax:Breakout-MinAtar", "dqn", episodes=6, evaluation_episodes=0, **options)
    assert np.isfinite(run.log["loss"]).all()
    assert run.log["loss"][-1] > 0
    assert run.agent.params.values.trained[0][0].shape == (1, 9 * 4, 16)


def test_windows_are_a_convolution():
    torso = torsos.make("conv", EnvSpec("image", (5, 6, 2), 3))
    (layer,), rest = torso.split(torso.init(jax.random.key(0), (torso.width, 7, 3)))
    x = jax.random.normal(jax.random.key(1), (4, 5, 6, 2))
    kernel = layer.w.reshape(3, 3, 2, 16)
    seen = jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    expected = jax.nn.relu(seen + layer.b).reshape(4, -1)
    np.testing.assert_allclose(torso.features([layer], x), expected, rtol=1e-4, atol=1e-5)
    assert mlp.apply_mlp(rest, expected).shape == (4, 3)


def test_the_torso_is_a_choice():
    shape = values.EnsembleShape(2, (8,), 0.0, 4, False, Adam(1e-3), "mlp")
    image = EnvSpec("image", (5, 6, 2), 3)
    state = jax.jit(values.make(image, shape).init)(jax.random.key(0))
    assert state.params[0][0].shape == (2, 60, 8)
    with pytest.raises(UserError, match="torso conv needs images"):
        values.make(EnvSpec("vector", (4,), 3), shape._replace(torso="conv"))


def test_a_factory_of_the_user_s(tmp_path, monkeypatch):
    (tmp_path / "my_lake.py").write_text(
        "import gymnasium\n\ndef make():\n    return gymnasium.make('FrozenLake-v1', is_slippery=False)\n\n"
        "def broken():\n    raise RuntimeError('no lake')\n\ndef text():\n    return 'deep_sea'\n\n"
        "def nothing_at_all():\n    pass\n\nSIZE = 4\n\ndef sized(size):\n    pass\n\ndef wrong():\n    sized()\n"
    )
    monkeypatch.chdir(tmp_path)
    env = environments.make("python:my_lake:make")
    assert (env.spec.num_states, env.spec.name) == (16, "python:my_lake:make")
    for place, words in (
        (
            "my_lake:xyz",
            "unknown function of my_lake 'xyz'; choose from: broken, make, nothing_at_all, sized, text, wrong",
        ),
        ("my_lake:maek", "did you mean 'make'"),
        ("my_lake:SIZE", "not a function"),
        ("my_lake:nothing_at_all", "returned nothing"),
        ("my_lake:broken", r"no lake \(my_lake.py, line 7\)\.$"),
        ("my_lake:sized", "'size'.*without arguments"),
        ("my_lake:wrong", r"'size' \(my_lake.py, line 21\)\.$"),
        ("my_lake:text", "returned a text"),
        ("no_such_module:make", "there is no module no_such_module in this folder"),
        ("my_lake", "write python:"),
    ):
        with pytest.raises(UserError, match=words):
            environments.make(f"python:{place}")


@pytest.mark.parametrize(
    ("name", "settings"),
    [("DeepSea", {"size": 4, "stochastic": True}), ("BinaryTree", {"depth": 3})],
)
def test_ours_pass_gymnasium_s_checker(name, settings):
    env = gymnasium.make(f"tdu/{name}-v0", **settings)
    check_env(env.unwrapped, skip_render_check=True)


def test_our_deep_sea_is_the_same_through_gymnasium():
    env, ours = gymnasium.make("tdu/DeepSea-v0", size=4), environments.make("deep_sea:size=4")
    observation, _ = env.reset(seed=0)
    state, timestep = ours.reset(tdu.run_key(0))
    for action in (0, 1, 1, 0):
        assert int(np.argmax(observation)) == int(timestep.observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        state, timestep = ours.step(state, jnp.int32(action), tdu.run_key(0))
        assert reward == pytest.approx(float(timestep.reward))
    assert terminated
    assert not truncated
    assert not observation.any()


def test_every_agent_takes_every_kind_of_observation():
    """Every agent can be built and acts on one-hot observations, vectors and images."""
    for spec in (EnvSpec("a", (3, 3), 3, num_states=9), EnvSpec("b", (4,), 3), EnvSpec("c", (5, 5, 2), 3)):
        for name, entry in agents.AGENTS.items():
            small = {"lstm_size": 4, "head_size": 4} if entry.is_recurrent else {}
            agent = entry.make(spec, agents.configure(name, {"hidden_sizes": (4,)} | small))
            observation = jnp.zeros(spec.carried_shape, spec.carried_dtype)

            def act(key, observation, agent=agent):
                params = agent.params(agent.init(key))
                timestep = TimeStep(observation, jnp.zeros(()), jnp.ones(()), jnp.zeros((), bool))
                actor = agent.actor(0.1) if callable(agent.actor) else agent.actor
                action, _ = actor.act(params, actor.begin(params, key), timestep, key)
                return action, agent.values(params, observation)

            action, q = jax.eval_shape(act, jax.random.key(0), observation)
            assert (action.shape, q.shape) == ((), (3,)), name


def test_what_an_environment_counts_keeps_its_type():
    env = Scripted()
    env.level, env.count = np.float32(0.1), 3
    made = of_dm_env(env, name="scripted", seed=0)
    saved = json.loads(json.dumps(made.counters()))
    env.level, env.count = 0, 0
    made.restore_counters(saved)
    assert (env.level, env.count) == (np.float32(0.1), 3)
    assert type(env.level) is np.float32
