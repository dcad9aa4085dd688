"""Deep Sea equals bsuite's in every transition, the Binary Tree is as documented, and ids give the right environments."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tdu
from tdu import environments
from tdu.environments import adapter, binary_tree, deep_sea
from tdu.environments.bsuite_twins import experiments
from tdu.environments.ids import EnvId
from tdu.environments.vector import PythonVector
from tdu.errors import UserError
from tdu.run import plan

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import bsuite
    from bsuite.environments.deep_sea import DeepSea


class Tape(np.random.RandomState):
    """bsuite's generator, which records its draws."""

    def __init__(self, seed):
        super().__init__(seed)
        self.slips, self.noises = [], []

    def rand(self, *args):
        self.slips.append(super().rand(*args))
        return self.slips[-1]

    def randn(self, *args):
        self.noises.append(super().randn(*args))
        return self.noises[-1]


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize(("size", "mapping_seed"), [(2, 0), (5, 42), (10, 42), (13, 7)])
def test_equal_to_bsuite_transition_by_transition(size, mapping_seed, stochastic):
    reference = DeepSea(size, deterministic=not stochastic, mapping_seed=mapping_seed)
    reference._rng = tape = Tape(0)
    settings = {"mapping_seed": mapping_seed, "stochastic": stochastic, "move_cost": 0.01}
    ours = deep_sea.deep_sea(size, **settings)
    move = jax.jit(deep_sea.dynamics(size, **settings))
    right = deep_sea.action_mapping(size, mapping_seed)
    rng = np.random.default_rng(1)
    bad = chests = 0
    for episode in range(40):
        state, timestep = ours.reset(jax.random.key(0))
        expected = reference.reset()
        while True:
            _same_observation(timestep.observation, expected.observation, size)
            if expected.last():
                break
            column, row = int(state.column), int(state.row)
            good = int(right[row, column])
            action = good if rng.random() < (0.5, 0.97, 1.0)[episode % 3] else 1 - good
            tape.slips.clear()
            tape.noises.clear()
            expected = reference.step(action)
            draws = deep_sea.Draws(
                jnp.float32(tape.slips[0] if tape.slips else 1.0), jnp.float32(tape.noises[0] if tape.noises else 0.0)
            )
            state, timestep = move(state, jnp.int32(action), draws)
            assert timestep.reward == pytest.approx(expected.reward, rel=1e-6, abs=1e-6)
            assert timestep.discount == expected.discount
            assert timestep.last == expected.last()
        info = ours.info(state)
        bad, chests = bad + int(info["total_bad_episodes"]), chests + int(info["denoised_return"])
        assert reference.bsuite_info() == {"total_bad_episodes": bad, "denoised_return": chests}
    assert 0 < bad < 40
    assert chests > 0


def _same_observation(index, grid, size):
    expected = np.zeros(size * size)
    if index < size * size:
        expected[int(index)] = 1.0
    np.testing.assert_array_equal(grid.reshape(-1), expected)


def test_stochastic_draws_have_the_right_frequencies():
    env = environments.make("deep_sea:size=10,stochastic=true")
    right = jnp.asarray(deep_sea.action_mapping(10, 42), jnp.int32)
    state = env.reset(jax.random.key(0))[0]
    keys = jax.random.split(jax.random.key(1), 20_000)
    moved = jax.vmap(lambda k: env.step(state, right[0, 0], k)[0].column)(keys)
    assert 1 - float(moved.mean()) == pytest.approx(0.1, abs=0.01)
    corner = state._replace(row=jnp.int32(9))
    rewards = jax.vmap(lambda k: env.step(corner, 1 - right[9, 0], k)[1].reward)(keys)
    assert float(rewards.std()) == pytest.approx(1.0, abs=0.03)
    assert float(rewards.mean()) == pytest.approx(0.0, abs=0.03)


def test_binary_tree_pays_one_at_the_top_and_nothing_on_the_way():
    depth = 6
    env = binary_tree.binary_tree(depth, seed=3)
    onward = binary_tree.onward_actions(depth, 3)
    assert set(binary_tree.onward_actions(100, 3)) == {0, 1}
    state, timestep = env.reset(jax.random.key(0))
    for branch in range(depth):
        assert int(timestep.observation) == branch
        wrong, after = env.step(state, jnp.int32(1 - onward[branch]), jax.random.key(0))
        assert (bool(after.last), float(after.reward), float(after.discount)) == (True, 0.0, 0.0)
        assert int(after.observation) == depth
        assert int(env.info(wrong)["total_bad_episodes"]) == 1
        state, timestep = env.step(state, jnp.int32(onward[branch]), jax.random.key(0))
        assert float(timestep.reward) == float(branch == depth - 1)
    assert bool(timestep.last)
    assert float(timestep.discount) == 0.0
    assert int(timestep.observation) == depth
    assert int(env.info(state)["total_bad_episodes"]) == 0


@pytest.mark.parametrize(
    ("env_id", "size", "stochastic"),
    [("deep_sea/5", 20, False), ("deep_sea_stochastic/3", 16, True), ("deep_sea:size=37,stochastic=true", 37, True)],
)
def test_ids_of_compiled_environments(env_id, size, stochastic):
    spec = environments.make(env_id).spec
    assert spec.observation_shape == (size, size)
    assert spec.solved.bad_share == (0.8 if stochastic else 0.9)


@pytest.mark.parametrize("index", [0, 20])
def test_twins_have_the_official_settings(index):
    official = bsuite.load_from_id(f"deep_sea/{index}")
    assert environments.make(f"deep_sea/{index}").spec.observation_shape == official.observation_spec().shape
    np.testing.assert_array_equal(official._action_mapping, deep_sea.action_mapping(official._size, 42))


def test_the_prefix_bsuite_is_the_official_environment():
    env = environments.make("bsuite:deep_sea/0")
    assert isinstance(env, PythonVector)
    assert env.spec.num_states == 100


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("dep_sea", "did you mean 'deep_sea'"),
        ("deep_sea:siz=3", "did you mean 'size'"),
        ("deep_sea:size=1", "size must be at least 2"),
        ("deep_sea:size=many", "size must be a whole number"),
        ("deep_sea:size", "write deep_sea:name=value"),
        ("deep_sea:stochastic=perhaps", "stochastic must be true|false"),
        ("deep_sea/21", "deep_sea/0 to deep_sea/20"),
        ("deep_sea/x", "deep_sea/0 to deep_sea/20"),
        ("catsh/0", "did you mean 'catch'"),
        ("catch/99", "catch/0 to catch/19"),
        ("bsuite:catsh/0", "did you mean 'catch'"),
        ("binary_tree:depth=0", "depth must be at least 1"),
        ("", "unknown environment"),
    ],
)
def test_errors_for_bad_ids_name_the_fix(env_id, words):
    with pytest.raises(UserError, match=words.replace("|", r"\|")):
        environments.make(env_id)


@pytest.mark.parametrize(
    ("text", "env_id", "kind", "of_the_paper"),
    [
        ("deep_sea:size=5", EnvId("deep_sea", settings="size=5"), "deep_sea", True),
        ("binary_tree", EnvId("binary_tree"), "other", True),
        ("key_door:size=5", EnvId("key_door", settings="size=5"), "other", False),
        ("deep_sea_stochastic/3", EnvId("twin", "deep_sea_stochastic/3"), "deep_sea", True),
        ("bsuite:catch/0", EnvId("bsuite", "catch/0"), "other", True),
        ("gym:CartPole-v1", EnvId("gym", "CartPole-v1"), "other", False),
        ("gym:ALE/Pong-v5", EnvId("gym", "ALE/Pong-v5"), "atari", False),
        ("gymnax:Breakout-MinAtar", EnvId("gymnax", "Breakout-MinAtar"), "minatar", False),
        ("atari/pong:size=42,stack=1", EnvId("atari", "pong", "size=42,stack=1"), "atari", False),
        ("python:a.b:make", EnvId("python", "a.b:make"), "other", False),
        ("object:Maze:(3,):2", EnvId("object", "Maze:(3,):2"), "other", False),
        ("", EnvId(""), "other", False),
    ],
)
def test_an_id_is_parsed_and_written_again(text, env_id, kind, of_the_paper):
    parsed = environments.parse(text)
    assert parsed == env_id
    assert (str(parsed), str(parsed.canonical())) == (text, text)
    assert (parsed.kind, parsed.is_of_the_paper) == (kind, of_the_paper)


def test_every_adapter_has_an_example_that_its_own_table_line_serves():
    for source, entry in environments.ADAPTERS.items():
        env_id = environments.parse(entry.example)
        assert env_id.source == source
        assert entry.episodes(env_id) in (None, 1000, 3000, 10_000)


def test_a_new_source_is_one_adapter_and_one_line_of_the_table(monkeypatch):
    env = deep_sea.deep_sea(4, mapping_seed=0, stochastic=False, move_cost=0.0)
    load = adapter.compiled(lambda env_id: env._replace(spec=env.spec._replace(name=str(env_id))))
    maze = adapter.Adapter("maze:NAME", "a maze", "maze:small", load)
    monkeypatch.setitem(environments.ADAPTERS, "maze", maze)
    assert environments.make("maze:small").spec.name == "maze:small"
    assert environments.make("maze:small", num_envs=2).size == 2
    sizes = {"hidden_sizes": (4,), "exploiters": 2, "evaluation_episodes": 0}
    assert tdu.train("maze:small", "bdqn", episodes=2, **sizes).config.env == "maze:small"
    with pytest.raises(UserError, match="did you mean 'maze'"):
        environments.make("mase:small")


@pytest.mark.parametrize("source", ["gym", "gymnax:", "bsuite", "atari", "python", "catch"])
def test_a_source_alone_is_answered_with_an_example(source):
    with pytest.raises(UserError, match="alone is not an environment; write "):
        environments.make(source)


def test_an_official_environment_is_the_same_for_one_seed_and_episode():
    def rewards(seed, episode):
        env = environments.bsuite.load("bandit_noise/0", seed)
        env.reset(episode)
        return float(env.step(0).reward)

    assert rewards(1, 5) == rewards(1, 5)
    assert len({rewards(1, 5), rewards(1, 6), rewards(2, 5)}) == 3


def test_settings_of_bsuite_that_differ_by_chance_alone_are_several_runs():
    from bsuite import sweep

    seen: dict[str, int] = {}
    for bsuite_id in sweep.SWEEP:
        what = f"{bsuite_id.partition('/')[0]} {sweep.SETTINGS[bsuite_id]}"
        assert experiments.copy_number(bsuite_id) == seen.get(what, 0)
        seen[what] = seen.get(what, 0) + 1
    assert sum(count - 1 for count in seen.values()) == 196
    assert [environments.own_seed(i, 5) == 5 for i in ("catch/0", "catch_noise/4", "bandit/7", "deep_sea/3")] == [
        True
    ] * 4
    seeds = {environments.own_seed(f"bsuite:mountain_car/{i}", seed) for i in range(20) for seed in range(3)}
    assert len(seeds) == 60

    def start(bsuite_id):
        return environments.bsuite.load(bsuite_id, 0).reset(0).observation.tolist()

    assert start("mountain_car/1") != start("mountain_car/0") == start("mountain_car/0")

    def untrained(bsuite_id):
        sizes = {"hidden_sizes": (4,), "exploiters": 2, "evaluation_episodes": 0}
        return tdu.train(bsuite_id, "bdqn", episodes=1, **sizes).agent.values(np.ones((10, 5)))

    assert (untrained("catch/3") != untrained("catch/0")).any()
    assert (untrained("catch/0") == untrained("catch/0")).all()


def test_settings_that_differ_by_chance_are_several_runs_on_a_cluster():
    """Each setting starts with its own networks. The test needs no cluster."""

    def untrained(bsuite_id):
        planned = plan.plan(bsuite_id, "tdu_r2d2", engine="ray", actors=1, steps=1, hidden_sizes=(4,), lstm_size=4)
        runner, _ = plan.make_runner(planned.config, planned.env, compiled=False)
        return np.concatenate([np.ravel(x) for x in jax.tree.leaves(runner.params())])

    assert (untrained("catch/3") != untrained("catch/0")).any()
    assert (untrained("catch/0") == untrained("catch/0")).all()
