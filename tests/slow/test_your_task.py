"""Tasks outside the paper: settings, drift warnings, evaluations during a run, observations of parts, configs."""

import functools
import importlib.util
import json
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from diary import SEVERAL, Corridor, several
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv

import tdu
from tdu import agents, environments
from tdu.agents import units
from tdu.environments.spaces import flatten, layout
from tdu.errors import EnvironmentFault, RunError, UserError
from tdu.report.collect import label
from tdu.run import folder as runs
from tdu.run import progress
from tdu.run.plan import plan, resolve
from tdu.run.runners import interaction
from tdu.run.runners.meter import possible_return
from tdu.types import Transition

TINY = {"hidden_sizes": (8,), "exploiters": 3, "explorers": 2, "batch_size": 8, "min_replay": 16}
GRID = "key_door:size=3,limit=12"


def quiet(*arguments, **settings):
    """A run and its messages."""
    said = []
    agent = arguments[1] if len(arguments) > 1 else "tdu"
    fields = agents.AGENTS[agent].config.__dataclass_fields__
    options = {"evaluation_episodes": 0} | {k: v for k, v in TINY.items() if k in fields} | settings
    return tdu.train(*arguments, say=said.append, **options), said


# Settings


@pytest.mark.parametrize(
    ("env", "preset"),
    [
        ("deep_sea:size=5", "paper"),
        ("deep_sea/3", "paper"),
        ("binary_tree", "paper"),
        ("catch/0", "paper"),
        ("bsuite:catch/0", "paper"),
        ("key_door", "general"),
        ("gym:CartPole-v1", "general"),
        ("gymnax:Breakout-MinAtar", "general"),
        ("python:lake:make", "general"),
    ],
)
def test_the_paper_s_settings_are_for_the_paper_s_environments(env, preset):
    for agent in ("tdu", "bdqn", "qu", "q_ucb", "dqn", "qex", "cts", "rnd", "nns"):
        chosen, _, _, words = resolve(env, agent)
        assert agents.configure(agent, {}, preset) == agents.configure(agent, chosen.config)
        assert words is None if preset == "paper" else words.startswith(f"{agent} uses the preset general, because")
        assert label(chosen) == (agent if preset == "paper" else f"{agent} general")
    chosen, _, _, words = resolve(env, "su")
    assert agents.configure("su", {}) == agents.configure("su", chosen.config)
    assert words is None


def test_an_agent_with_one_network_has_the_general_settings_that_apply_to_it():
    ensemble, single, noisy = (agents.configure(name, {}, "general") for name in ("bdqn", "dqn", "nns"))
    for name in ("observations", "reward_unit", "bootstrap", "learning_rate", "target_period", "return_steps"):
        assert getattr(ensemble, name) == getattr(single, name) == getattr(noisy, name)
    assert (single.epsilon, noisy.epsilon) == (0.05, 0.0), "how it explores stays its own"


def test_objects_have_the_settings_of_what_they_are():
    assert not environments.identify(Corridor()).is_of_the_paper
    assert environments.identify(environments.make("deep_sea:size=4")).is_of_the_paper
    assert not environments.identify(environments.make(GRID)).is_of_the_paper
    bsuite = pytest.importorskip("bsuite")
    assert environments.identify(bsuite.load_from_id("catch/0")).is_of_the_paper


def test_a_preset_can_be_chosen_and_changed():
    plan = resolve("key_door", preset="paper", beta=2.0)
    assert plan.note is None
    assert label(plan.config) == "tdu beta=2.0"
    assert label(resolve("key_door", beta=2.0).config) == "tdu general beta=2.0"
    with pytest.raises(UserError, match="preset listing is for other agents; agent dqn has paper, general"):
        resolve("key_door", "dqn", preset="listing")


@pytest.mark.parametrize(("observation", "scale"), [("one_hot", 1.0), ("features", 0.3)])
def test_priors_are_smaller_where_observations_are_not_one_hot(observation, scale):
    env = environments.make(f"key_door:size=3,observation={observation}")
    whole, default = (agents.configure("bdqn", options, "general") for options in ({"dense_prior": 1.0}, {}))
    key = jax.random.key(0)
    large, small = (agents.find("bdqn").make(env.spec, config) for config in (whole, default))
    first = env.reset(key)[1].observation
    values = [agent.examiner.q(agent.params(agent.init(key)), first) for agent in (large, small)]
    without = agents.find("bdqn").make(env.spec, agents.configure("bdqn", {"prior_scale": 0.0}, "general"))
    learned = without.examiner.q(without.params(without.init(key)), first)
    np.testing.assert_allclose(values[1] - learned, scale * (values[0] - learned), rtol=1e-4, atol=1e-6)


def test_a_config_has_every_option_of_the_agent():
    paper, general = (resolve(env, "tdu").config for env in ("deep_sea:size=4", GRID))
    assert paper.config.keys() == general.config.keys() == vars(agents.configure("tdu", {})).keys()
    assert (paper.config["dense_prior"], general.config["dense_prior"]) == (1.0, 0.3)
    whole = resolve(GRID, "tdu", dense_prior=1.0).config
    assert label(whole) == "tdu general dense_prior=1.0"
    assert agents.configure("tdu", whole.config).dense_prior == 1.0


FEATURES, IMAGES = (f"key_door:size=3,observation={kind}" for kind in ("features", "image"))


@pytest.mark.parametrize(
    ("given", "env", "because"),
    [
        ({"observations": "standard"}, GRID, "observation is not a vector of numbers"),
        ({"observations": "raw"}, IMAGES, "observation is not a vector of numbers"),
        ({"dense_prior": 0.5}, GRID, "observation is one-hot"),
        ({"dense_return_steps": 3}, GRID, "observation is one-hot"),
    ],
)
def test_what_would_change_nothing_is_refused(given, env, because):
    with pytest.raises(UserError, match=f"{next(iter(given))} changes nothing on .*, whose {because}"):
        plan(env, "tdu", **given)
    assert plan(FEATURES, "tdu", **given).config.config["bootstrap"] == "double"


def test_su_does_not_see_centred_observations():
    with pytest.raises(UserError, match="agent su needs raw observations"):
        plan(FEATURES, "su", observations="standard")


@pytest.mark.parametrize("acting", ["live", "frozen"])
def test_another_head_is_drawn_within_a_long_episode(acting):
    env = environments.make(GRID)
    options = {"hidden_sizes": (8,), "head_steps": 3, "acting": acting, "epsilon": 0.0}
    agent = agents.find("tdu").make(env.spec, agents.configure("tdu", options, "general"))
    key = jax.random.key(0)
    params, now = agent.params(agent.init(key)), env.reset(key)[1]
    act, state, heads = jax.jit(agent.actor.act), agent.actor.begin(params, key), []
    for t in range(30):
        action, state = act(params, state, now, jax.random.fold_in(key, t))
        heads.append(int(agent.head(state)))
        assert int(action) == int(np.argmax(agent.examiner.q(params, now.observation)[heads[-1]])), "the head acts"
    by_three = np.reshape(heads, (10, 3))
    assert (by_three == by_three[:, :1]).all()
    assert len(set(heads)) > 3


def test_episodes_that_are_short_enough_are_the_same_runs_with_and_without_another_head():
    short = {
        "episodes": 20,
        "hidden_sizes": (8,),
        "min_replay": 16,
        "evaluation_episodes": 0,
        "say": lambda words: None,
    }
    logs = [tdu.train(env, "tdu", head_steps=steps, **short).log for env in (GRID, Corridor()) for steps in (0, 1000)]
    for one, other in (logs[:2], logs[2:]):
        np.testing.assert_array_equal(one["episode_return"], other["episode_return"])
        np.testing.assert_array_equal(one["bonus"], other["bonus"])
    assert logs[0]["bonus"].max() > 0


@pytest.mark.parametrize("factor", [1000.0, 2**-10])
def test_rewards_of_any_scale_are_one_task(factor):
    """All actions are the same, and all reported values are in the rewards' unit."""
    room = environments.make(GRID)

    def paid(times):
        def step(state, action, key):
            state, timestep = room.step(state, action, key)
            return state, timestep._replace(reward=timestep.reward * times)

        return room._replace(step=step)

    one, other = (quiet(paid(times), seed=3, episodes=150, epsilon=0.6)[0] for times in (1.0, factor))
    assert one.log["episode_return"].sum() > 5
    np.testing.assert_array_equal(other.log["episode_len"], one.log["episode_len"])
    np.testing.assert_allclose(other.log["episode_return"], factor * one.log["episode_return"])
    np.testing.assert_allclose(other.log["largest_q"][-20:], factor * one.log["largest_q"][-20:], rtol=1e-5)
    np.testing.assert_allclose(other.log["bonus"][-20:], factor * one.log["bonus"][-20:], rtol=1e-5)
    np.testing.assert_allclose(other.agent.values(0), factor * one.agent.values(0), rtol=1e-5)
    in_units_of_one = quiet(paid(factor), seed=3, episodes=150, epsilon=0.6, reward_unit="one")[0]
    assert not np.array_equal(in_units_of_one.log["episode_len"], one.log["episode_len"])


def size_after(kind, rewards, ends=(), discount=0.99, rows=1):
    """The unit of values after these rewards in each of `rows` environments; those at `ends` end the task."""
    unit = units.make(kind, discount)
    met, observe = unit.init(), jax.jit(unit.observe)
    for i, reward in enumerate(rewards):
        for row in range(rows):
            step = Transition(None, None, np.float32(reward), np.float32(i not in ends), None, {"row": np.int32(row)})
            met = observe(met, step)
    return float(unit.size(met))


@pytest.mark.parametrize("times", [1.0, 1000.0, 0.001])
def test_values_are_in_units_of_the_returns_that_rewards_add_up_to(times):
    one = 1.0 if times == 1 else abs(times)
    sparse, dense = [0.0] * 30 + [times], [times] * 30
    assert size_after("returns", sparse) == pytest.approx(one)
    assert size_after("returns", dense) == pytest.approx(10 * one)
    five = range(4, 30, 5)
    assert size_after("returns", dense, ends=five) == pytest.approx(one), "five rewards are all there are"
    assert size_after("returns", dense, ends=five, rows=4) == pytest.approx(one), "in each of four environments too"
    assert size_after("returns", [times] * 300, discount=0.999) == pytest.approx(max(100 * one, 1.0))
    assert size_after("largest", dense) == pytest.approx(one)
    assert size_after("returns", []) == 1.0


def test_a_small_cost_of_every_step_does_not_make_rewards_small():
    """The unit must be the same before and after the goal is found."""
    cost = [-0.01] * 40
    assert size_after("returns", cost) == size_after("returns", [*cost, 1.0]) == 1.0
    assert size_after("returns", [-0.001] * 40) == 1.0, "costs alone say nothing of what is sought"
    assert size_after("returns", [0.001] * 40) == pytest.approx(0.01)


@pytest.mark.parametrize("observation", ["one_hot", "features"])
def test_what_was_learned_is_kept_where_the_unit_changes(observation):
    """A far larger reward changes the unit. Values in the rewards' unit do not change, except for the prior."""
    env = environments.make(f"key_door:size=3,observation={observation}")
    options = {"hidden_sizes": (8,), "prior_scale": 0.0, "min_replay": 4, "batch_size": 4, "epsilon": 0.0}
    agent = agents.find("tdu").make(env.spec, agents.configure("tdu", options, "general"))
    key = jax.random.key(0)
    state, first = agent.init(key), env.reset(key)[1]
    acting = agent.actor.begin(agent.params(state), key)
    observe, learn = jax.jit(agent.observe), jax.jit(agent.learn)

    def stored(state, reward):
        after = first._replace(reward=np.float32(reward), discount=np.float32(1.0))
        return observe(state, acting, interaction.as_transition(agent, first.observation, np.int32(0), after), key)

    for _ in range(20):
        state, _ = learn(stored(state, 0.5), key)
    before = agent.values(agent.params(state), first.observation)
    unchanged, changed = stored(state, 0.5), stored(state, 500.0)
    np.testing.assert_array_equal(agent.values(agent.params(unchanged), first.observation), before)
    np.testing.assert_allclose(agent.values(agent.params(changed), first.observation), before, rtol=1e-5)
    target = [jax.tree.leaves(s.values.target)[-1] for s in (state, changed)]
    np.testing.assert_allclose(target[1] * 500.0, target[0], rtol=1e-5)


def test_values_of_dense_rewards_are_reported_in_the_unit_of_rewards():
    """A step pays 1 and only time limits end episodes, so values approach 1 / (1 − γ), whatever unit is learned in."""
    room = environments.make(GRID)

    def step(state, action, key):
        state, timestep = room.step(state, action, key)
        return state, timestep._replace(reward=jnp.ones(()), discount=jnp.ones(()))

    settings = {"episodes": 200, "discount": 0.95, "learning_rate": 5e-3, "target_period": 20}
    run, _ = quiet(room._replace(step=step), **settings)
    assert 17 < run.log["largest_q"][-20:].mean() < 23
    one, _ = quiet(room._replace(step=step), reward_unit="one", **settings)
    assert not np.array_equal(one.log["largest_q"], run.log["largest_q"])


# Drift


def test_the_possible_return_follows_from_the_rewards():
    assert possible_return(2.0, 10, 0.0, 0.5) == 2.0
    assert possible_return(1.0, 1, 1.0, 0.5) == 2.0  # 1 + ½ + ¼ …
    assert possible_return(0.0, 7, 1.0, 1.0) == 0.0
    assert possible_return(1.0, 3, 1.0, 1.0) > 1e5


def test_drift_is_reported_once_and_kept():
    wild = {"learning_rate": 0.03, "target_period": 1, "preset": "paper", "episodes": 120}
    run, said = quiet(GRID, seed=1, **wild)
    (warning,) = [words for words in said if words.startswith("values drift")]
    episode, largest, possible = re.search(
        r"episode (\d+) the largest \|Q\| is (\S+), .* at most (\S+);", warning
    ).groups()
    assert float(largest) == pytest.approx(run.log["largest_q"][int(episode) - 1], rel=1e-2)
    assert float(largest) > 2 * float(possible)
    assert run.result["largest_q"] == run.log["largest_q"][-100:].max() > 2 * run.result["possible_return"]
    assert run.result["possible_return"] in (0.0, 1.0)


def test_no_warning_where_priors_grow_with_the_unit_of_values():
    """A first reward of 2500 after learning began makes the fixed priors 2500 times as large in the rewards' unit."""
    room = environments.make(GRID)

    def step(state, action, key):
        state, timestep = room.step(state, action, key)
        return state, timestep._replace(reward=2500.0 * jax.random.bernoulli(key, 0.01))

    run, said = quiet(room._replace(step=step), preset="general", prior_scale=100.0, episodes=60, seed=1)
    largest = run.log["largest_q"]
    assert largest.max() > max(100 * largest[largest > 0][0], 2 * run.result["possible_return"])
    assert not [words for words in said if "drift" in words]


@pytest.mark.parametrize("agent", ["tdu", "dqn", "cts", "tdu_ac", "su"])
def test_no_warning_for_a_sound_run(agent):
    run, said = quiet(GRID, agent, episodes=60)
    assert not [words for words in said if "drift" in words]
    assert run.result["largest_q"] == run.log["largest_q"].max()
    assert run.result["largest_q"] > 0 or agent == "su"  # SU's values are 0 before the first reward


def test_the_stepwise_runner_sees_the_same_values():
    """Our Deep Sea is compiled; bsuite's own is not."""
    a, b = (quiet(env, episodes=30, until="budget")[0] for env in ("deep_sea/0", "bsuite:deep_sea/0"))
    np.testing.assert_allclose(a.log["largest_q"], b.log["largest_q"], rtol=1e-6)
    assert a.result["possible_return"] == pytest.approx(b.result["possible_return"])


# Evaluations during a run


@pytest.mark.parametrize("env", [GRID, Corridor])
def test_evaluations_are_on_schedule_and_change_nothing(env, tmp_path):
    make = env if callable(env) else lambda: env
    plain, _ = quiet(make(), seed=3, episodes=90, out=tmp_path / "plain")
    seen = []
    run, _ = quiet(
        make(), seed=3, episodes=90, out=tmp_path / "run", evaluation_episodes=5, evaluate_every=20,
        callbacks=[tdu.Callback(on_evaluation=seen.append)],
    )  # fmt: skip
    evaluations = runs.read_log(tmp_path / "run" / "evaluations.csv")
    assert evaluations["episode"].tolist() == [20, 40, 60, 80] == [e.episode for e in seen]
    assert evaluations["steps"].tolist() == [run.log["steps"][e - 1] for e in (20, 40, 60, 80)]
    assert evaluations["greedy_return"].tolist() == [e.returns.mean for e in seen]
    without, _ = quiet(make(), seed=3, episodes=90, evaluation_episodes=5, evaluate_every=20)
    again = tdu.load(tmp_path / "run", None if isinstance(env, str) else make())
    for found in (run.evaluations, without.evaluations, again.evaluations):
        assert list(found) == [
            "episode", "steps", "greedy_return", "standard_error", "evaluation_episodes", "mean_length", "success_rate",
        ]  # fmt: skip
        for name, numbers in found.items():
            np.testing.assert_array_equal(numbers, evaluations[name])
            assert numbers.dtype == evaluations[name].dtype
    assert plain.evaluations == quiet(make(), episodes=2)[0].evaluations == {}
    assert tdu.load(tmp_path / "plain", None if isinstance(env, str) else make()).evaluations == {}
    for name, column in plain.log.items():
        if name != "seconds":
            np.testing.assert_array_equal(run.log[name], column)
    best = int(np.argmax(evaluations["greedy_return"]))
    loaded = tdu.load(tmp_path / "run", None if isinstance(env, str) else make(), best=True)
    assert len(loaded.log["episode"]) == evaluations["episode"][best] == loaded.evaluations["episode"][-1]
    for a, b in zip(*(map(np.asarray, tree_of(agent)) for agent in (loaded.agent, seen[best].agent)), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(RunError, match="no best agent; train with evaluate_every"):
        tdu.load(tmp_path / "plain", None if isinstance(env, str) else make(), best=True)


def tree_of(agent):
    return jax.tree.leaves(agent.params)


def test_a_resumed_run_evaluates_as_the_whole_one(tmp_path):
    settings = {"episodes": 60, "seed": 1, "evaluation_episodes": 3, "evaluate_every": 15} | TINY
    tdu.train(GRID, out=tmp_path / "whole", say=print, **settings)

    def stop_at_40(report):
        if report.episode >= 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tdu.train(GRID, out=tmp_path / "cut", progress=stop_at_40, checkpoint_seconds=0, **settings)
    assert tdu.load(tmp_path / "cut").evaluations["episode"].tolist() == [15, 30]
    states = []
    run = tdu.train(GRID, out=tmp_path / "cut", resume=True, progress=states.append, **settings)
    assert run.evaluations["episode"][-1] == 60
    facts = progress.facts(states[-1])
    assert (facts["greedy_episode"], facts["greedy_return"]) == (60, run.evaluations["greedy_return"][-1])
    texts = [(tmp_path / name / "evaluations.csv").read_text() for name in ("whole", "cut")]
    assert texts[0] == texts[1]
    assert len(texts[0].splitlines()) == 5
    kept = [max(p.name for p in (tmp_path / name / "best").iterdir()) for name in ("whole", "cut")]
    assert kept[0] == kept[1]


def test_a_callback_ends_a_run(tmp_path):
    rows = []

    def three(row):
        rows.append(row)
        return row["episode"] < 3

    run, _ = quiet(Corridor(), episodes=500, out=tmp_path / "run", callbacks=[tdu.Callback(on_episode=three)])
    assert [row["episode"] for row in rows] == [1, 2, 3]
    assert run.result["episodes"] == 3
    assert runs.read_result(tmp_path / "run").episodes == 3
    until_30 = tdu.Callback(on_evaluation=lambda e: e.episode < 30)
    ended, _ = quiet(GRID, episodes=500, evaluation_episodes=1, evaluate_every=10, callbacks=[until_30])
    assert ended.result["episodes"] == 30


def test_what_cannot_be_evaluated_on_the_way_is_refused():
    with pytest.raises(UserError, match="needs evaluation_episodes"):
        quiet(GRID, evaluate_every=5)
    vector = AsyncVectorEnv([Corridor, Corridor], context="spawn")
    try:
        with pytest.raises(UserError, match="give its id"):
            quiet(vector, episodes=5, evaluate_every=2, evaluation_episodes=1)
    finally:
        vector.close()


# Observations of several parts


def test_parts_are_laid_out_in_one_array():
    parts = layout(SEVERAL)
    assert parts.shape == (2 + 3 + 1 + 4 + 4,)
    assert parts.left_out == ("mission (Text)",)
    seen = flatten(parts, several(2), "it returned")
    np.testing.assert_allclose(seen, [0, 1, 0, 0, 1, 0.5, 0.2, 0.2, 0.2, 0.2, 0, 0, 1, 0], rtol=1e-6)
    with pytest.raises(EnvironmentFault, match=r"it returned 9 as part compass"):
        flatten(parts, several(2) | {"compass": 9}, "it returned")
    with pytest.raises(EnvironmentFault, match=r"part camera of shape \(3,\)"):
        flatten(parts, several(2) | {"camera": np.zeros(3)}, "it returned")
    with pytest.raises(EnvironmentFault, match=r"2 numbers as part compass"):
        flatten(parts, several(2) | {"compass": [1, 1]}, "it returned")
    with pytest.raises(EnvironmentFault, match=r"part mast is missing; it has .*camera"):
        flatten(layout(spaces.Dict(mast=spaces.Box(0, 1, (1,)))), several(2), "it returned")


def test_a_single_part_keeps_its_shape():
    parts = layout(spaces.Dict(camera=spaces.Box(0, 255, (4, 4, 3), np.uint8), mission=spaces.Text(9)))
    assert parts.shape == (4, 4, 3)
    assert layout(spaces.Dict(mission=spaces.Text(9))) is None


def test_an_environment_of_several_parts_trains_and_is_described(tmp_path):
    env = Corridor(SEVERAL, several)
    run, said = quiet(env, episodes=10, out=tmp_path / "run")
    assert any("arms.0 (5 numbers) and" in words and "mission (Text)" in words for words in said)
    assert run.agent.act(several(1)) in (0, 1)
    vector = AsyncVectorEnv([functools.partial(Corridor, SEVERAL, several)] * 2, context="spawn")
    try:
        assert quiet(vector, episodes=4)[0].result["episodes"] == 4
    finally:
        vector.close()


def test_minigrid_trains_as_it_is(monkeypatch):
    """MiniGrid is not imported yet, so Gymnasium does not have its ids."""
    assert importlib.util.find_spec("minigrid") is not None
    assert "minigrid" not in sys.modules
    run, said = quiet("gym:MiniGrid-Empty-5x5-v0", steps=60)
    assert any("direction (4 numbers) and image (147 numbers)" in words for words in said)
    made = environments.make("gym:MiniGrid-Empty-5x5-v0")
    assert 0.5 < made.start().max() <= 1.0
    made.close()
    assert run.result["steps"] == 60
    monkeypatch.setitem(sys.modules, "minigrid", None)  # as if it were not installed
    with pytest.raises(UserError, match="pip install minigrid"):
        environments.make("gym:MiniGrid-Empty-5x5-v0")


# A run's config as a template


def test_a_run_like_another(tmp_path):
    first, _ = quiet(GRID, "bdqn", seed=4, episodes=7, out=tmp_path / "a")
    again = tdu.train(config=tmp_path / "a" / "config.json", evaluation_episodes=0)
    np.testing.assert_array_equal(again.log["loss"], first.log["loss"])
    assert again.config == first.config
    other = plan(config=tmp_path / "a", seed=5, learning_rate=1e-2).config
    assert (other.seed, other.agent, other.episodes) == (5, "bdqn", 7)
    assert other.config == first.config.config | {"learning_rate": 1e-2}
    assert plan(config=tmp_path / "a", preset="paper").config.config == plan("deep_sea", "bdqn").config.config
    edited = json.loads((tmp_path / "a" / "config.json").read_text()) | {"episodes": 3}
    (tmp_path / "edited.json").write_text(json.dumps(edited))
    assert plan(config=tmp_path / "edited.json").config.episodes == 3


def test_a_template_that_is_none_is_refused(tmp_path):
    with pytest.raises(RunError, match="missing"):
        plan(config=tmp_path / "no.json")
    quiet(Corridor(), episodes=2, out=tmp_path / "run")
    with pytest.raises(UserError, match="no file stores"):
        plan(config=tmp_path / "run")
    assert plan(Corridor(), config=tmp_path / "run").config.episodes == 2
    with pytest.raises(UserError, match="an environment is missing"):
        plan()
