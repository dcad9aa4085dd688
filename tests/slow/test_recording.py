"""--record stores the agent's exact numbers, does not change the run, and writes the same bytes after a kill."""

import json
import shutil

import jax
import numpy as np
import pytest
from small import SIZE, TASK

import tdu
from tdu import agents, environments
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.cli import main
from tdu.environments import maps
from tdu.errors import RunError, UserError
from tdu.run import folder as runs
from tdu.run import progress, recording
from tdu.run.folder import snapshots
from tdu.run.runners import interaction
from tdu.types import Transition

SMALL = {
    "hidden_sizes": (8,),
    "exploiters": 3,
    "explorers": 2,
    "batch_size": 16,
    "min_replay": 32,
    "learning_rate": 5e-3,
}
HOW = {"seed": 1, "episodes": 80, "until": "budget", "evaluation_episodes": 0, **SMALL}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recorded run, its folder and its record."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    run = tdu.train(TASK, "tdu", out=folder, record_every=4, **HOW)
    record = runs.read_record(folder, run.config, pytest.fail)
    assert record is not None
    return run, folder, record


def same_but_for_time(one, other):
    assert one.keys() == other.keys()
    for name in one.keys() - {"seconds"}:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_recording_changes_nothing(recorded):
    run, _, _ = recorded
    same_but_for_time(run.log, tdu.train(TASK, "tdu", **HOW).log)


def test_a_run_that_was_cut_off_leaves_the_same_bytes(recorded, tmp_path):
    run, whole, _ = recorded
    copied = tmp_path / "cut"

    def copy(row):
        if row["episode"] == 37:
            shutil.copytree(out, copied, ignore=shutil.ignore_patterns(".lock*"))

    out = tmp_path / "run"
    tdu.train(
        TASK, "tdu", out=out, record_every=4, checkpoint_seconds=0.0, callbacks=[tdu.Callback(on_episode=copy)], **HOW
    )
    assert (copied / "record.jsonl").read_bytes() != (whole / "record.jsonl").read_bytes()
    resumed = tdu.train(TASK, "tdu", out=copied, resume=True, **HOW)  # it continues recording without the option
    assert (copied / "record.jsonl").read_bytes() == (whole / "record.jsonl").read_bytes()
    assert (out / "record.jsonl").read_bytes() == (whole / "record.jsonl").read_bytes()
    same_but_for_time(run.log, resumed.log)


def test_every_step_is_counted_where_it_was_taken_and_by_whom(recorded):
    run, _, record = recorded
    visits = record.maps("visits").sum(axis=0)
    explores = run.log["head"] >= SMALL["exploiters"]
    for group, episodes in enumerate((~explores, explores)):
        assert visits[group].sum() == run.log["episode_len"][episodes].sum()
        assert visits[group][0] == episodes.sum()  # every episode begins in the first state
    assert record.snapshots[0]["episode"] == 0
    assert record.snapshots[-1]["episode"] == HOW["episodes"]


def test_values_and_path_are_the_trained_agent_s(recorded):
    run, _, record = recorded
    here = maps.find(environments.make(TASK).spec)
    values = np.stack([run.agent.values(int(state)) for state in here.states])
    np.testing.assert_allclose(record.maps("value")[-1], values.max(axis=1), rtol=2e-3, atol=1e-4)
    assert record.snapshots[-1]["path"] == here.path(values.argmax(axis=1))


def test_sigma_is_the_spread_of_td_errors(recorded):
    """Before the first step, target networks equal the networks, so σ follows from the heads' values alone."""
    run, _, record = recorded
    agent = run.agent.agent
    first = agent.params(agent.init(interaction.first_keys(tdu.run_key(HOW["seed"]))[0]))
    here = maps.find(environments.make(TASK).spec)
    heads = np.stack([np.asarray(agent.examiner.q(first, np.int32(s))) for s in here.states], axis=1)
    q, end = heads[: SMALL["exploiters"]], np.zeros((SMALL["exploiters"], 1, 2))
    following = np.concatenate([q, end], axis=1).max(axis=2)[:, here.following]
    td = here.rewards + agent.discount * here.discounts * following - q
    np.testing.assert_allclose(record.maps("sigma")[0], td.std(axis=0, ddof=1).max(axis=1), rtol=2e-3, atol=1e-4)


def moments(episodes, **how):
    found = [0]
    while found[-1] < episodes:
        found.append(recording.next_moment(found[-1], episodes, **how))
    return found


def test_the_number_of_snapshots_is_bounded():
    for episodes, most in ((10, 3), (300, 32), (10_000, 150), (10**6, 220), (2**31 - 1, 310)):
        assert len(moments(episodes, gap=10)) <= most, episodes
        assert moments(episodes, gap=10)[-1] >= episodes
    assert moments(12, every=3) == [0, 3, 6, 9, 12]
    assert len(moments(10**6, every=1)) < 1100


@pytest.mark.parametrize(
    "env_id", [TASK, "deep_sea:size=5,move_cost=0.1", "binary_tree:depth=30", "key_door:size=3,limit=50"]
)
def test_a_map_has_the_result_of_every_action(env_id):
    env = environments.make(env_id)
    here = maps.find(env.spec)
    number = {int(state): i for i, state in enumerate(here.states)}
    rng = np.random.default_rng(0)
    step, met = jax.jit(env.step), set()
    for episode in range(60):
        state, timestep = env.reset(tdu.run_key(episode))
        assert number[int(timestep.observation)] == 0
        while not timestep.last:
            at, action = number[int(timestep.observation)], int(rng.integers(env.spec.num_actions))
            state, timestep = step(state, np.int32(action), tdu.run_key(0))
            met.add(at)
            assert here.rewards[at, action] == pytest.approx(float(timestep.reward), abs=1e-6)
            following = int(here.following[at, action])
            if timestep.discount:
                assert here.states[following] == timestep.observation
            else:
                assert following == len(here.states)
    assert len(met) > 5
    assert len(set(here.cells.tolist())) == len(here.cells)


def test_official_deep_sea_has_the_map_of_its_twin():
    pytest.importorskip("bsuite")
    one, other = (maps.find(environments.make(env_id).spec) for env_id in ("deep_sea/0", "bsuite:deep_sea/0"))
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


def test_stepwise_runs_are_recorded_too(tmp_path):
    pytest.importorskip("bsuite")
    how = {**HOW, "episodes": 8}
    run = tdu.train("bsuite:deep_sea/0", "tdu", out=tmp_path / "run", record=True, **how)
    record = runs.read_record(tmp_path / "run", run.config, pytest.fail)
    explores = run.log["head"] >= SMALL["exploiters"]
    counted = record.maps("visits").sum(axis=(0, 2))
    assert counted.tolist() == [run.log["episode_len"][~explores].sum(), run.log["episode_len"][explores].sum()]


def test_without_a_map_there_are_distributions(tmp_path):
    how = {**HOW, "episodes": 5, "preset": "general", "hidden_sizes": (8,)}
    run = tdu.train("gym:CartPole-v1", "tdu", out=tmp_path / "run", record=True, **how)
    record = runs.read_record(tmp_path / "run", run.config, pytest.fail)
    assert record.about["map"] is None
    last = record.snapshots[-1]
    assert last["bonus"] == sorted(last["bonus"])
    assert last["bonus"][2] > 0
    assert last["td"] == sorted(last["td"])


def test_an_agent_without_recording_is_refused(tmp_path):
    with pytest.raises(UserError, match="give out"):
        tdu.train(TASK, record=True)
    for agent in ("tdu_ac", "r2d2"):
        with pytest.raises(UserError, match=f"agent {agent} cannot be recorded"):
            tdu.train(TASK, agent, out=tmp_path / agent, record=True, episodes=1)
        assert not (tmp_path / agent).exists()  # the folder stays free for a run without --record
    assert main(["sweep", TASK, "--agent", "dqn", "--agent", "r2d2", "--record", "--out", str(tmp_path / "sweep")]) == 2
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize("name", agents.AGENTS)
def test_what_can_be_recorded_is_known_before(name):
    entry = agents.find(name)
    made = entry.make(environments.make(TASK).spec, agents.configure(name, {}))
    assert entry.can_be_recorded == (getattr(made, "examiner", None) is not None)
    assert entry.is_recurrent == isinstance(made, RecurrentAgent)


def test_successor_uncertainties_are_looked_at_through_their_mean():
    spec = environments.make(TASK).spec
    agent = agents.find("su").make(spec, agents.configure("su", {"hidden_sizes": (4,), "features": 3}))
    state = jax.jit(agent.init)(jax.random.key(0))._replace(mean=np.array([0.5, -1.0, 2.0], np.float32))
    values = jax.jit(agent.values)
    q = np.stack([values(agent.params(state), np.int32(o)) for o in (0, 5, spec.num_states)])
    batch = Transition(
        np.int32([0, 5]),
        np.int32([1, 0]),
        np.float32([0.25, 1]),
        np.float32([1, 0]),
        np.int32([5, spec.num_states]),
        {},
    )
    seen = jax.jit(agent.examiner.examine)(state, batch)
    taken = np.array([q[0, 1], q[1, 0]])
    np.testing.assert_allclose(seen.q, [taken], rtol=1e-5)
    np.testing.assert_allclose(seen.td, [np.array([0.25 + agent.discount * q[1].max(), 1]) - taken], rtol=1e-5)
    np.testing.assert_array_equal(seen.bonus, [0, 0])
    np.testing.assert_allclose(jax.jit(agent.examiner.q)(agent.params(state), np.int32(5)), q[1:2], rtol=1e-6)


def test_a_sweep_passes_record_to_its_runs(tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr(progress, "run_jobs", lambda those, *_, **__: jobs.extend(those) or [])
    assert (
        main(["sweep", TASK, "--seeds", "2", "--record", "--record-every", "7", "--out", str(tmp_path / "sweep")]) == 0
    )
    assert len(jobs) == 2
    assert all(job.arguments[-3:] == ["--record", "--record-every", "7"] for job in jobs)


def test_a_damaged_record_is_refused(recorded, tmp_path):
    _, folder, record = recorded
    lines = (folder / "record.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "record.jsonl"
    path.write_bytes(b"".join(lines)[:-10])  # half a line at the end
    assert len(snapshots.read(path).snapshots) == len(record.snapshots) - 1
    assert snapshots.read(tmp_path / "nothing") is None
    wrong = json.loads(lines[1])
    wrong["maps"]["value"]["shape"] = [SIZE]
    for damage in (lines[0] + b"{}\n", lines[0] + b"[]\n", b"\xff\n", lines[0] + snapshots.line(wrong)):
        path.write_bytes(damage)
        with pytest.raises(RunError, match=r"record\.jsonl"):
            snapshots.read(path)
