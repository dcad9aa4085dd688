"""The three stages that choose the settings of figure 1's other methods, and the verdict on C3."""

import itertools

import pytest

from reproduction import catalogue, deep_sea_runs, reproduce, rows
from reproduction.experiment import cell
from reproduction.experiments import baselines
from reproduction.rows import RunRow


def made(one, solved):
    """The row of a run solved at episode `solved`; None is unsolved."""
    episodes = solved or one.episodes
    return RunRow(*rows.identity(one), solved, episodes, 9, float(bool(solved)), 50, 1.0, "abc1234", "a processor")


def stage_one(agent, solved):
    return [
        made(one, solved(dict(setting), one))
        for setting in baselines.settings(agent)
        for one in baselines.first_stage(agent, setting)
    ]


def test_the_grids_are_those_of_the_rules():
    counts = {agent: len(baselines.settings(agent)) for agent in baselines.METHODS}
    assert counts == {"cts": 9, "rnd": 14, "su": 25, "nns": 5, "qex": 9}
    first = {rows.identity(one) for one in baselines.cells("laptop")}
    assert len(first) == 4 * sum(counts.values())
    assert {(one.seed, one.episodes) for one in baselines.cells("laptop")} == {(100, 3000)}


def test_the_best_setting_solves_most_and_then_soonest():
    def solved(setting, one):
        beta = setting["beta"]
        if beta == 1.0 and deep_sea_runs.size_of(one.env) == 20:
            return None  # fastest where solved, but solves only two of four
        return {1.0: 10, 0.1: 300, 0.01: 200, 5.0: 400, 10.0: 500}.get(beta)

    found = stage_one("qex", solved)
    assert baselines.finalists("qex", found[1:]) == [], "a run is missing"
    four = baselines.finalists("qex", found)
    assert [dict(setting)["beta"] for setting in four] == [0.01, 0.1, 5.0, 10.0]
    second = baselines.next_cells("laptop", found)
    assert {(one.env, one.seed, one.episodes) for one in second} == {
        (deep_sea_runs.deep_sea_id(30, stochastic=s), 100, 10_000) for s in (False, True)
    }
    assert len(second) == 8
    found += [made(one, 9000 if dict(one.options).get("beta") == 5.0 else None) for one in second]
    assert dict(baselines.best("qex", found)) == {"beta": 5.0}, "over all six runs"
    third = baselines.next_cells("laptop", found)[8:]
    assert len(third) == 5 * 2 * 3
    assert {one.options for one in third} == {(("beta", 5.0),)}
    assert {one.seed for one in third} == {0, 1, 2}
    thin, whole = ({rows.identity(c) for c in baselines.next_cells(p, found)} for p in ("laptop", "paper"))
    assert thin < whole
    assert len(whole) == 8 + 21 * 2 * 5


def test_equal_settings_keep_the_grid_s_order():
    four = baselines.finalists("nns", stage_one("nns", lambda setting, one: None))
    assert [dict(setting)["noise_scale"] for setting in four] == [0.01, 0.1, 1.0, 10.0]


def test_what_is_missing_follows_the_rows():
    found = stage_one("nns", lambda setting, one: None)
    missing = reproduce.missing(["baselines"], "laptop", {"baselines": found})
    assert sum(one.cell.agent == "nns" for one in missing) == 8
    state = reproduce.status("baselines", "laptop", {"baselines": found})
    assert (state.done, state.missing) == (20, 4 * 57 + 8)
    assert catalogue.grids()["baselines"].all_cells("laptop", []) == baselines.cells("laptop")


def all_stages(solved):
    """Rows of every stage; `solved` takes an agent, whether Deep Sea is stochastic, and the size."""

    def at(one):
        return solved(one.agent, deep_sea_runs.is_stochastic(one.env), deep_sea_runs.size_of(one.env))

    found = [
        made(one, at(one))
        for agent, s, size, seed in itertools.product(("tdu", "bdqn"), (False, True), (10, 20, 30, 40, 50), range(3))
        for one in [
            cell(deep_sea_runs.deep_sea_id(size, stochastic=s), agent, seed, preset="listing" if s else "paper")
        ]
    ]
    for _ in range(3):
        known = {row.identity for row in found}
        wanted = catalogue.grids()["baselines"].all_cells("laptop", found)
        found += [made(one, at(one)) for one in wanted if rows.identity(one) not in known]
    return found


@pytest.mark.parametrize(
    ("solved", "word"),
    [
        (lambda agent, stochastic, size: agent == "tdu" or (agent in ("bdqn", "su") and not stochastic), "reproduced"),
        (lambda agent, stochastic, size: agent in ("tdu", "bdqn"), "not reproduced"),
        (lambda agent, stochastic, size: agent == "su" and not stochastic, "partly reproduced"),
        (lambda agent, stochastic, size: agent == "tdu", "partly reproduced"),
        (lambda agent, stochastic, size: agent in ("tdu", "qex") and size < 50, "not reproduced"),
    ],
    ids=["as claimed", "BDQN too", "SU alone", "TDU alone", "TDU lacks one size of five"],
)
def test_the_verdict_follows_its_rule(solved, word):
    found = all_stages(lambda *where: 900 if solved(*where) else None)
    verdict = baselines.report(found).verdicts["C3"]
    assert verdict.word == word, verdict.because
    lacking = baselines.report([row for row in found if row.seed != 2]).verdicts["C3"]
    assert lacking.word == "not yet enough data"
