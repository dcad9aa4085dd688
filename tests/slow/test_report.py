"""The page of `tdu report` in a real browser: it shows the numbers of the logs and makes no request to the network."""

import csv
import dataclasses
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, executable
from small import TASK

import tdu
from tdu import agents
from tdu.cli import main
from tdu.report import collect, curves, headline, page, page_data, palette
from tdu.report.text import rounded
from tdu.run import folder as runs

SMALL = {"hidden_sizes": (8,), "exploiters": 3, "batch_size": 16, "min_replay": 32, "learning_rate": 5e-3}
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """TDU and BDQN, two seeds each. Three runs are recorded, and one folder has a malicious name."""
    folder = tmp_path_factory.mktemp("report") / "sweep"
    how = {"episodes": 70, "until": "budget", "evaluation_episodes": 2, **SMALL}
    for seed in (0, 1):
        tdu.train(TASK, "tdu", seed=seed, out=folder / f"tdu-{seed}", record_every=2, explorers=2, **how)
    tdu.train(TASK, "bdqn", seed=0, out=folder / f"bdqn{EVIL.replace('/', ' ')}", record=True, **how)
    tdu.train(TASK, "bdqn", seed=1, out=folder / "bdqn-1", **how)
    return folder


@pytest.fixture(scope="module")
def written(sweep, tmp_path_factory):
    """The path of the page."""
    out = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", str(sweep), "--out", str(out), "--title", EVIL]) == 0
    return out


@pytest.fixture(scope="module")
def browser():
    if executable() is None:
        pytest.skip("there is no Chromium: apt-get install chromium, and the pages are tested too")
    browser = Browser()
    yield browser
    browser.close()


def table(browser, name):
    """The cells of a table on the page, with exact numbers."""
    rows = browser.run(
        f"[...document.querySelector('table[aria-label=\"{name}\"]').rows].map(r => [...r.cells].map("
        "c => c.dataset.value ?? c.textContent))"
    )
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def captions(browser):
    """The caption of each map."""
    return browser.run("[...document.querySelectorAll('.map .caption')].map(p => p.textContent)")


def move(browser, to):
    browser.run(f"(() => {{ moment.value = {to}; moment.dispatchEvent(new Event('input')); }})()")


@pytest.mark.parametrize("look", [{}, {"dark": True}, {"width": 360, "height": 740, "phone": True}], ids=str)
def test_a_page_renders_without_an_error_or_a_request(browser, written, look):
    browser.open(written, **look)
    assert browser.problems == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in browser.requests if url.startswith("file:")]) == 1
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run("[...document.querySelectorAll('canvas')].every(c => c.width > 20 && c.height > 5)")
    words = "[...document.querySelectorAll('.card pre span')]"
    assert browser.run(f"{words}.some(word => word.textContent === '--agent')")
    lines = browser.run(
        f"{words}.filter(word => word.textContent.length < 20).map(word => word.getClientRects()[0].height)"
    )
    assert max(lines) < 30, "an option is broken over two lines"
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", background)[:3])) / 3
    assert brightness < 60 if look.get("dark") else brightness > 200
    assert len(set(browser.screenshot(full=False))) > 50


def test_the_table_of_runs_is_whole_or_says_that_it_scrolls(browser, tried_out):
    assert main(["report", str(tried_out)]) == 0
    scroll = "document.querySelector('#runs .scroll')"
    fits = f"{scroll}.scrollWidth <= {scroll}.clientWidth"
    for width, is_whole in ((1400, True), (390, False)):
        browser.open(tried_out / "report.html", width=width)
        assert browser.run(fits) is is_whole
        browser.until(f"document.querySelector('#runs .hint').hidden === {str(is_whole).lower()}")
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")


def test_the_legend_of_a_phone_is_plain_text(browser, tried_out):
    """The numbers begin on the last line of the name or below it, and not in a second column."""
    assert main(["report", str(tried_out)]) == 0
    browser.open(tried_out / "report.html", width=390, height=844, phone=True)
    entries = "[...document.querySelectorAll('.curves .legend > span')].map(s => [s.children[1], s.lastChild])"
    for name, numbers in browser.run(f"{entries}.map(pair => pair.map(e => [...e.getClientRects()].map(r => r.top)))"):
        assert len(name) > 1
        assert numbers[0] >= name[-1] - 3


def test_names_are_texts(browser, written):
    browser.open(written)
    assert browser.run("document.title") == EVIL
    assert "<script>alert" not in written.read_text().lower()
    assert any(EVIL.replace("/", " ") in row["folder"] for row in table(browser, "runs"))
    assert browser.run("document.scripts.length") == 3


def test_the_numbers_are_the_log_s(browser, written, sweep):
    browser.open(written)
    rows = {row["folder"]: row for row in table(browser, "runs")}
    assert len(rows) == 4
    for folder in runs.find_runs(sweep):
        log, result = runs.read_log(folder / "log.csv"), runs.read_result(folder)
        row = rows[folder.name]
        assert int(row["episodes"]) == log["episode"][-1] == 70
        assert int(row["steps"]) == log["steps"][-1]
        assert float(row["last-100 return"]) == result.mean_return
        assert float(row["evaluation return"]) == result.greedy_return.mean
    log = runs.read_log(sweep / "tdu-0" / "log.csv")
    heads = [row for row in table(browser, "heads") if row["agent"].startswith("tdu") and row["seed"] == "0"]
    assert [row["role"] for row in heads] == ["exploiter"] * 3 + ["explorer"] * 2
    for row in heads:
        own = log["episode_return"][log["head"] == int(row["head"])]
        assert int(row["episodes"]) == len(own)
        if len(own):
            assert float(row["mean return"]) == pytest.approx(own.mean())
    assert sum(int(row["episodes"]) for row in heads) == 70


def test_the_curves_are_the_log_s(browser, written, sweep):
    browser.open(written)
    logs = [runs.read_log(sweep / f"tdu-{seed}" / "log.csv") for seed in (0, 1)]
    last = np.mean([log["episode_return"][-1] for log in logs])  # for 70 episodes, the window is one episode
    entries = browser.run(
        "[...document.querySelectorAll('.curves .legend > span')].map(s => [s.textContent, s.lastChild.textContent])"
    )
    words = next(words for name, words in entries if name.startswith("tdu"))
    assert float(words.split(" ")[0]) == pytest.approx(last, rel=5e-3, abs=1e-6)
    assert "2 seeds" in words
    strokes = "[...document.querySelectorAll('.curves .legend line')].map(l => l.getAttribute('stroke'))"
    assert dict(zip([name[:3] for name, _ in entries], browser.run(strokes), strict=True)) == {
        "bdq": palette.COLOURS["bdqn"].light, "tdu": palette.COLOURS["tdu"].light,
    }  # fmt: skip


def test_the_slider_moves_the_map_and_play_plays(browser, written, sweep):
    browser.open(written)
    assert len(captions(browser)) == 3  # the recorded runs
    record = runs.read_record(sweep / "tdu-0", runs.read_config(sweep / "tdu-0"), pytest.fail)
    last = captions(browser)
    assert all(words.startswith("Episode 70,") for words in last)
    picture = "document.querySelector('.map canvas').toDataURL()"
    at_the_end = browser.run(picture)
    move(browser, 0)
    assert all(words.startswith("Episode 0, step 0.") for words in captions(browser))
    assert browser.run("episode.textContent") == "0"
    assert browser.run(picture) != at_the_end
    move(browser, 5)
    cell = record.about["map"]["cells"][int(record.maps("sigma")[5].argmax())]
    ((frame, own),) = browser.run(
        "[...document.querySelectorAll('.map')].filter(f => /^tdu.*seed 0,/.test(f.textContent))"
        ".map(f => [f.dataset.frame, f.querySelector('.caption').textContent])"
    )
    assert frame == "5"
    assert own.startswith(f"Episode {record.snapshots[5]['episode']}, step {record.snapshots[5]['steps']}. ")
    assert f"largest in row {cell // 4 + 1}, column {cell % 4 + 1}: " in own
    move(browser, 0)
    browser.run("play.focus()")
    browser.key(" ", 32)
    browser.until("+moment.value >= 3")
    assert browser.run("play.getAttribute('aria-pressed')") == "true"
    browser.run("play.click()")
    stopped = browser.run("moment.value")
    assert browser.run("new Promise(r => setTimeout(() => r(moment.value), 400))") == stopped
    browser.run("moment.focus()")
    browser.key("ArrowRight", 39)
    assert int(browser.run("moment.value")) == int(stopped) + 1
    assert browser.problems == []


def test_layers_are_chosen_and_missing_ones_are_named(browser, written):
    browser.open(written)
    names = browser.run("[...document.getElementById('layer').options].map(o => o.value)")
    assert names[0] == "bonus σ"
    assert {"visits", "recent visits, explorers", "spread of Q, exploiters", "spread of Q, explorers"} <= set(names)
    choose = "(() => {{ const l = document.getElementById('layer'); l.value = {}; l.dispatchEvent(new Event('change')); }})()"
    browser.run(choose.format(json.dumps("recent visits, explorers")))
    has_none = ["This run has no recent visits, explorers" in words for words in captions(browser)]
    has_some = ["Visits by explorers since the last snapshot: " in words for words in captions(browser)]
    assert sorted(has_none) == [False, False, True]  # BDQN has no explorers
    assert has_some == [not none for none in has_none]


def test_tables_are_sorted_and_copied(browser, written):
    browser.open(written)
    press = "document.querySelector('table[aria-label=\"heads\"] th:nth-child(6) button').click()"
    for sign in (1, -1):
        browser.run(press)
        episodes = [sign * int(row["episodes"]) for row in table(browser, "heads")]
        assert episodes == sorted(episodes)
    assert browser.run("document.querySelector('table[aria-label=\"heads\"] th:nth-child(6)').ariaSort") == "descending"
    browser.run("document.querySelector('#runs .copy').click()")
    copied = browser.run("document.querySelector('#runs .table').dataset.copied").splitlines()
    assert len(copied) == 5
    assert copied[0].split("\t")[:3] == ["environment", "agent", "seed"]


def test_every_choice_of_a_chart_draws(browser, written):
    browser.open(written)
    browser.run("""(() => { for (const s of document.querySelectorAll('.curves select, #strip')) for (const o of s.options)
        { s.value = o.value; s.dispatchEvent(new Event('change')); } })()""")
    browser.run("document.querySelector('.every').click()")
    assert browser.problems == []
    assert "possible return" in browser.run(
        "document.querySelector('.curves .legend').textContent"
    )  # beside largest |Q|
    assert browser.run("document.querySelectorAll('.u-wrap').length") >= 4


@pytest.fixture(scope="module")
def tried_out(tmp_path_factory):
    """Two runs of 70 episodes with an evaluation every 20 episodes."""
    folder = tmp_path_factory.mktemp("tried") / "out"
    for seed in (0, 1):
        tdu.train(TASK, "bdqn", seed=seed, out=folder / str(seed), episodes=70, until="budget", evaluation_episodes=2,
                  evaluate_every=20, **SMALL)  # fmt: skip
    return folder


def test_the_evaluation_return_is_drawn_beside_the_training_return(browser, tried_out, written):
    assert main(["report", str(tried_out)]) == 0
    browser.open(tried_out / "report.html")
    last = np.mean([runs.read_result(tried_out / str(seed)).greedy_return.mean for seed in (0, 1)])
    legend = "[...document.querySelectorAll('.curves .legend > span')].map(s => s.textContent)"
    training, greedy = browser.run(legend)
    assert "evaluation return" not in training
    words = greedy.partition(", evaluation return")[2]
    assert float(words.split(" ")[0]) == pytest.approx(last, rel=5e-3, abs=1e-6)
    note = "document.querySelector('.curves .note').textContent"
    assert "without exploration" in browser.run(note)
    choose = "(m => {{ m.value = '{}'; m.dispatchEvent(new Event('change')); }})(document.querySelector('.metric'))"
    browser.run(choose.format("greedy_return"))
    assert len(browser.run(legend)) == 1
    browser.run(choose.format("loss"))
    assert not any("evaluation return" in entry for entry in browser.run(legend))
    assert browser.problems == []
    browser.open(written)
    assert not any("evaluation return" in entry for entry in browser.run(legend))
    assert "trained policy" not in browser.run(note)


# ------------------------------------------------------------------ without a browser


def data_of(path):
    return json.loads(path.read_text().partition('id="data">')[2].partition("</script>")[0])


def test_the_page_has_the_evaluations_of_runs_that_have_some(written, tried_out, tmp_path):
    assert "greedy_return" not in json.dumps(data_of(written))
    assert main(["report", str(tried_out), "--out", str(tmp_path / "page.html")]) == 0
    (env,) = data_of(tmp_path / "page.html")["environments"]
    assert env["metrics"]["greedy_return"] == "evaluation return"
    evaluated = [runs.read_log(tried_out / str(seed) / "evaluations.csv")["greedy_return"] for seed in (0, 1)]
    last = [runs.read_result(tried_out / str(seed)).greedy_return.mean for seed in (0, 1)]
    for axis in env["axes"].values():
        (own,) = axis["metrics"]["greedy_return"]
        for seed, numbers, end in zip(own["seeds"], evaluated, last, strict=True):
            known = [number for number in seed if number is not None]
            assert known[0] == pytest.approx(numbers[0], abs=0.05)
            assert known[-1] == pytest.approx(end, rel=1e-4)
    (own,) = env["axes"]["episodes"]["metrics"]["greedy_return"]
    assert env["axes"]["episodes"]["x"] == list(range(1, 71))
    for seed, numbers, end in zip(own["seeds"], evaluated, last, strict=True):
        assert seed[:19] == [None] * 19
        assert [seed[episode - 1] for episode in (20, 40, 60, 70)] == pytest.approx([*numbers, end], rel=1e-4)
    assert own["count"] == 2


def test_the_greedy_return_goes_straight_from_evaluation_to_evaluation(sweep):
    shown = collect.collect([sweep]).runs
    assert all(page_data.GREEDY not in page_data.drawn_log(run) for run in shown)
    evaluations = {"episode": np.array([20, 40]), "steps": np.array([80, 160]), "greedy_return": np.array([0.0, 1.0])}
    evaluations |= {"standard_error": np.zeros(2), "evaluation_episodes": np.full(2, 9), "mean_length": np.full(2, 4.0)}
    evaluations |= {"success_rate": np.full(2, np.nan)}
    run = shown[0]._replace(evaluations=evaluations)
    drawn = page_data.drawn_log(run)[page_data.GREEDY]
    assert np.isnan(drawn[:19]).all()
    np.testing.assert_allclose(drawn[[19, 29, 39, 69]], [0, 0.5, 1, 1])
    ended = collect._with_end(evaluations, run.result)
    assert ended["episode"].tolist() == [20, 40, 70]
    assert ended["greedy_return"][-1] == run.result.greedy_return.mean
    assert collect._with_end(evaluations, None) == evaluations
    many = [one for one in shown for _ in range(100)]
    assert page_data.points([*many, run]) < page_data.points([*many, shown[0]]) == 500_000 // (3 * 6 * (401 + 4 * 2))


def test_evaluations_that_were_changed_are_left_out_with_a_reason(tried_out, tmp_path):
    for name, text in (("changed", "episode,greedy_return\n20,5.0\n"), ("bare", "a,b\n1,2\n"), ("empty", "")):
        folder = tmp_path / name
        ignored = shutil.ignore_patterns("checkpoints") if name == "bare" else None
        shutil.copytree(tried_out / "0", folder, ignore=ignored)
        (folder / "evaluations.csv").write_text(text)
        (run,), _, _ = collect.collect([folder])
        assert run.evaluations == {}
        assert any("its evaluations are left out" in note for note in run.notes), (name, run.notes)
    (folder / "evaluations.csv").write_text("episode,steps,greedy_return,standard_error,evaluation_episodes\n")
    shutil.rmtree(folder / "checkpoints")
    assert collect.collect([folder]).runs[0].evaluations == {}


def test_configurations_that_differ_are_shown(written):
    text = written.read_text()
    differences = text.partition('aria-label="differences"')[2].partition("</table>")[0]
    assert "<td>explorers</td>" in differences
    assert "<td>batch_size</td>" not in differences


def test_missing_parts_are_reported(sweep, tmp_path, capsys):
    folder = tmp_path / "mixed"
    folder.mkdir()
    shutil.copytree(sweep / "bdqn-1", folder / "good")
    shutil.copytree(sweep / "bdqn-1", folder / "damaged")
    (folder / "damaged" / "config.json").write_text("{")
    shutil.copytree(sweep / "tdu-0", folder / "failed", ignore=shutil.ignore_patterns("result.json", "checkpoints"))
    shutil.copytree(sweep / "tdu-1", folder / "spoiled")
    spoiled = folder / "spoiled" / "record.jsonl"
    spoiled.write_bytes(spoiled.read_bytes().replace(b'"episode":4', b'"episode":5', 1))
    (folder / "empty").mkdir()
    assert main(["report", str(folder), str(folder / "empty"), "--out", str(tmp_path / "page.html")]) == 2
    errors = capsys.readouterr().err
    assert "damaged is left out" in errors
    assert "empty is left out: it has no runs in it" in errors
    missing = (tmp_path / "page.html").read_text().partition('<section id="missing">')[2]
    for words in ("damaged", "failed", "interrupted", "its record is left out", "empty"):
        assert words in missing, words
    assert "without maps and distributions: trained without --record" in missing


def test_a_log_with_nan_is_shown_but_for_that(sweep, tmp_path):
    folder = tmp_path / "nan"
    shutil.copytree(sweep / "bdqn-1", folder, ignore=shutil.ignore_patterns("result.json", "checkpoints"))
    lines = (folder / "log.csv").read_text().splitlines()
    lines[3] = ",".join("nan" if i == 7 else cell for i, cell in enumerate(lines[3].split(",")))
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    assert main(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 0
    text = (tmp_path / "page.html").read_text()
    assert "not finite in loss" in text
    json.loads(text.partition('id="data">')[2].partition("</script>")[0])


def test_mistakes_are_one_sentence(sweep, tmp_path, capsys):
    mine = '<!doctype html><script id="data">my own page</script>'
    (tmp_path / "mine.html").write_text(mine)
    os.mkfifo(tmp_path / "fifo.html")
    (tmp_path / "nothing").mkdir()
    for arguments, words in (
        ([str(tmp_path / "no")], "is not a folder"),
        ([str(tmp_path / "nothing")], "has no runs in it"),
        ([str(sweep), "--out", str(tmp_path / "mine.html")], "is not a page of tdu report"),
        ([str(sweep), "--out", str(tmp_path / "fifo.html")], "is not a page of tdu report"),
        ([str(sweep), "--out", str(tmp_path)], "is a folder"),
    ):
        assert main(["report", *arguments]) == 2
        errors = capsys.readouterr().err
        assert words in errors
        assert errors.count("\n") == 1
    assert (tmp_path / "mine.html").read_text() == mine


def results(folder):
    """A folder of an experiment, with malicious text that a page must escape."""
    folder.mkdir()
    with open(folder / "runs.csv", "w", newline="") as f:
        csv.writer(f).writerows([["env", "seed", "score"], [EVIL, "3", "0.25"], ["sea", "4", ""]])
    (folder / "drawn.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 4"><rect width="9" height="4"/></svg>'
    )
    (folder / "README.md").write_text(f"""<!-- laptop -->
# deep_sea: figure 1 {EVIL}

- **C1: reproduced.** `a < b` and *so*
  it goes on; {EVIL}
- a [page](https://example.org/?a=1&b=2), a [trap](javascript:alert(1)), a [file](../x.md)

<!-- hidden -->
The command:

    tdu reproduce deep_sea   # {EVIL}

## Scores

| agent | score | *n* |
| --- | --- | --- |
| tdu {EVIL} | 0.50 | 10 |
| bdqn | – | 9 |

![The scores](drawn.svg)
![Gone](gone.svg)
![Elsewhere](../../secret.svg)

```
# no heading
```
""")
    return folder


def test_the_page_of_results_has_its_text_figures_and_rows(browser, tmp_path):
    folder = results(tmp_path / "sea")
    assert main(["report", str(folder)]) == 0
    browser.open(folder / "report.html")
    assert browser.problems == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert (
        browser.run("[...document.querySelectorAll('h2')].map(h => h.textContent)")[0] == f"deep_sea: figure 1 {EVIL}"
    )
    assert browser.run("document.querySelector('h3').textContent") == "Scores"
    items = browser.run("[...document.querySelectorAll('#results-0 li')].map(item => item.innerHTML)")
    assert items[0].startswith(
        "<strong>C1: reproduced.</strong> <code>a &lt; b</code> and <em>so</em>\nit goes on; &lt;script"
    )
    assert items[1] == (
        'a <a href="https://example.org/?a=1&amp;b=2" rel="noreferrer">page</a>, a [trap](javascript:alert(1)), a file'
    )
    assert browser.run("[...document.links].map(a => a.protocol)") == ["https:"]
    assert "hidden" not in browser.run("document.getElementById('results-0').textContent")
    assert browser.run("[...document.querySelectorAll('pre')].map(p => p.textContent.trim())") == [
        f"tdu reproduce deep_sea   # {EVIL}", "# no heading"
    ]  # fmt: skip
    assert browser.run("[...document.images].map(i => [i.alt, i.naturalWidth > 0])") == [["The scores", True]]
    rows = table(browser, "sea: agent, score, n")
    assert rows == [{"agent": f"tdu {EVIL}", "score": "0.50", "n": "10"}, {"agent": "bdqn", "score": "–", "n": "9"}]
    assert [row["score"] for row in table(browser, "runs.csv")] == ["0.25", "–"]
    text = (folder / "report.html").read_text()
    assert "<script>alert" not in text
    assert text.count("gone.svg") == 2  # in its place and in the list
    assert "secret.svg" in text


def test_our_own_results_are_shown(browser, tmp_path):
    folder = Path(__file__).parents[2] / "results" / "deep_sea"
    assert main(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 0
    browser.open(tmp_path / "page.html", width=360, height=740, phone=True)
    assert browser.problems == []
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run("[...document.images].length >= 2 && [...document.images].every(i => i.naturalWidth > 100)")
    with open(folder / "runs.csv") as f:
        assert [row["solved_episode"] for row in table(browser, "runs.csv")] == [
            row["solved_episode"] or "–" for row in csv.DictReader(f)
        ]
    first = next(line for line in (folder / "README.md").read_text().splitlines() if line.startswith("- **C1"))
    assert browser.run("document.querySelector('#results-0 li strong').textContent") == first.split("**")[1]


def test_rows_without_a_text_are_a_table(tmp_path, capsys):
    folder = results(tmp_path / "results")
    (folder / "README.md").unlink()
    (folder / "broken.csv").write_text("a,b\n1\n")
    assert main(["report", str(folder)]) == 2
    assert "broken.csv is left out: it cannot be read" in capsys.readouterr().err
    text = (folder / "report.html").read_text()
    assert "&lt;script&gt;alert(1)" in text
    assert 'data-value="0.25"' in text
    assert "it has no README.md" in text


def test_curves_are_means_of_the_last_episodes():
    log = {"episode": np.arange(1, 7), "steps": np.arange(1, 7) * 10, "loss": np.array([1.0, 2, np.nan, 4, 5, 6])}
    at = curves.grid([log], "steps", points=100)
    assert at[0] == 10
    assert at[-1] == 60
    own = curves.curve(log, "loss", "episodes", np.array([0.0, 1, 3, 6, 7]), window=2)
    np.testing.assert_array_equal(own, [np.nan, 1.0, 2.0, 5.5, np.nan])
    two = np.array([[1.0, 1, np.nan], [3.0, np.nan, np.nan]])
    band = curves.band(two, fewest=2)
    np.testing.assert_array_equal(band.mean, [2, np.nan, np.nan])
    assert band.high[0] - 2 == pytest.approx(12.706, abs=1e-3)  # Student's t with one degree of freedom, times one
    assert np.isnan(band.high[1])
    assert np.isnan(curves.band(two).high).all()  # the interval of two seeds is not drawn
    np.testing.assert_array_equal(curves.band(two).mean, band.mean)


def test_the_mean_ends_where_the_first_seed_ends():
    """A mean over the remaining seeds would rise from 0.5 to 1 here."""
    two = np.array([[0.0, 1, 1, 1, 1, np.nan], [0.0, 0, 0, np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(curves.band(two).mean, [0, 0.5, 0.5, np.nan, np.nan, np.nan])
    without = np.vstack([two, np.full((1, 6), np.nan)])  # a seed without any value does not count
    np.testing.assert_array_equal(curves.band(without).mean, curves.band(two).mean)


def test_the_interval_of_a_return_in_0_to_1_stays_there():
    two = np.array([[0.0, 0.2, 1.0], [0.4, 0.8, 0.6]])
    free, cut = curves.band(two, fewest=2), curves.band(two, curves.bounds([two]), fewest=2)
    assert free.low.min() < 0
    assert free.high.max() > 1
    assert cut.low.min() == 0
    assert cut.high.max() == 1
    np.testing.assert_array_equal(cut.mean, free.mean)
    assert curves.bounds([np.array([-0.1, np.nan]), np.array([1.0])]) == (-0.1, 1)
    assert curves.bounds([np.array([-3.0, np.nan]), np.array([450.5])]) == (-np.inf, np.inf)  # 500 is possible
    assert curves.bounds([]) == (0, 1)


def test_an_interval_leaves_the_seeds_half_of_the_height():
    two = np.array([[0.0, 4.0, 8.0], [0.0, 4.0, 9.0]])
    assert curves.limits([two]) == (0, 9)
    three = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 9.0]])
    assert curves.band(three).high[2] == pytest.approx(3 + 4.303 * 3, abs=1e-2)
    assert curves.limits([three]) == (-4.5, 9 + 4.5)
    one = np.array([[-1.0, np.nan, 2.0]])
    assert curves.limits([one]) == (-1, 2)
    assert curves.limits([two, one]) == (-1, 9)
    assert curves.limits([one * np.nan]) is None


def test_a_scale_keeps_numbers_within_a_few_hundredths():
    numbers = np.array([[0.0, 1e-9, 0.5, 3.0], [40.0, 41.0, np.nan, 2.0]])
    low, high, steps = page_data.scaled(numbers)
    assert (low, high) == (0.041, 41)
    back = np.where(steps, low * (high / low) ** ((steps.astype(float) - 1) / 254), 0.0)
    np.testing.assert_allclose(back, [[0, 0.041, 0.5, 3], [40, 41, 0, 2]], rtol=0.02)
    assert page_data.scaled(np.array([1, 100_000]))[:2] == (1, 100_000)
    assert not page_data.scaled(np.zeros(3))[2].any()


def test_maps_of_many_runs_stay_small(sweep, monkeypatch):
    shown = collect.collect([sweep]).runs
    whole = page_data.maps(shown)
    monkeypatch.setattr(page_data, "_MAP_BYTES", sum(len(m["episodes"]) * len(m["cells"]) for m in whole) * 2)
    fewer = page_data.maps(shown)
    for before, after in zip(whole, fewer, strict=True):
        assert len(after["episodes"]) < len(before["episodes"])
        assert after["episodes"][-1] == before["episodes"][-1]
    assert len(page.write(collect.collect([sweep]), "t")) < 1e6


def test_a_page_of_many_environments_stays_small(sweep):
    (one, *_), _, _ = collect.collect([sweep])
    many = [one._replace(config=dataclasses.replace(one.config, env=f"env{k}"), record=None) for k in range(60)]
    text = page.write(collect.Collected(many, [], {}), "many")
    assert len(text) < 2e6
    assert text.count('class="curves"') == 40
    assert "20 more environments" in text
    assert "env59" in text


def test_agents_without_recording_differ_from_unrecorded_runs(sweep):
    runs_, _, _ = collect.collect([sweep])
    bare = [run._replace(record=None) for run in runs_[:3]]
    bare[0] = bare[0]._replace(config=dataclasses.replace(bare[0].config, agent="tdu_ac", config={}))
    text = page.write(collect.Collected(bare, [], {}), "t")
    assert "1 of 3 runs without maps and distributions: their agents cannot be recorded" in text
    assert "2 of 3 runs without maps and distributions: trained without --record" in text
    assert 'id="maps"' not in text  # no empty sections
    assert text.count('class="curves"') == 1


def made_up(run, seed, *, steps, returns, budget, agent="bdqn"):
    """A run with a budget of steps and three steps per episode."""
    config = dataclasses.replace(run.config, seed=seed, episodes=None, steps=budget, agent=agent)
    episode = np.arange(1, steps + 1)
    log = {"episode": episode, "steps": 3 * episode, "seconds": episode / 10, "episode_return": np.full(steps, returns)}
    return run._replace(config=config, log=log, result=None, record=None, evaluations={}, state="interrupted")


def test_a_budget_of_steps_is_drawn_over_steps_and_only_what_all_seeds_have_reached(browser, sweep, tmp_path):
    """The seed with return 1 has twice the steps of the seed with return 0. The mean is 0.5 and never 1."""
    run = collect.collect([sweep]).runs[0]
    seeds = [made_up(run, 0, steps=40, returns=1.0, budget=600), made_up(run, 1, steps=20, returns=0.0, budget=600)]
    assert collect.budget_axis(seeds) == "steps"
    assert collect.budget_axis([run]) == "episodes"
    (tmp_path / "page.html").write_text(page.write(collect.Collected(seeds, [], {}), "t"))
    browser.open(tmp_path / "page.html")
    assert browser.run("document.querySelector('.axis').value") == "steps"
    words = browser.run("document.querySelector('.curves .legend b').textContent")
    assert words.startswith("0.5 (2 seeds) at ")
    (curve,) = data_of(tmp_path / "page.html")["environments"][0]["axes"]["steps"]["metrics"]["episode_return"]
    assert {x for x in curve["mean"] if x is not None} == {0.5}
    assert sum(x is not None for x in curve["seeds"][0]) > sum(x is not None for x in curve["mean"])


def test_a_seed_that_reached_its_goal_keeps_its_last_value(browser, sweep, tmp_path):
    """The seed with return 1 ends after 20 of 40 episodes. Only if it reached its goal, the mean stays 0.5 up to the end."""
    run = collect.collect([sweep]).runs[0]
    seeds = [made_up(run, 0, steps=20, returns=1.0, budget=600), made_up(run, 1, steps=40, returns=0.0, budget=600)]
    assert not seeds[0].has_reached_goal
    result = dataclasses.replace(run.result, episodes=20, steps=60, solved_episode=None, mastered_episode=None)
    for changes, goes_on in (({}, False), ({"reached_return": 1.0}, True)):
        ended = seeds[0]._replace(result=dataclasses.replace(result, **changes))
        assert ended.has_reached_goal is goes_on
        at = np.array([20.0, 40.0, 41.0])
        drawn = curves.of_group(
            [page_data.drawn_seed(one) for one in (ended, seeds[1])], "episode_return", "episodes", at, 1
        )
        np.testing.assert_array_equal(drawn.own, [[1, np.nan, np.nan], [0, 0, np.nan]])
        np.testing.assert_array_equal(curves.band(drawn.kept).mean, [0.5, 0.5 if goes_on else np.nan, np.nan])
    (tmp_path / "page.html").write_text(page.write(collect.Collected([ended, seeds[1]], [], {}), "t"))
    browser.open(tmp_path / "page.html")
    assert browser.run("document.querySelector('.curves .legend b').textContent") == "0.5 (2 seeds)"


def test_what_counts_as_a_goal(sweep):
    run = collect.collect([sweep]).runs[0]
    result = dataclasses.replace(run.result, solved_episode=9, mastered_episode=None)
    mastered = dataclasses.replace(result, mastered_episode=30)
    early = {"solved": result, "mastered": mastered}
    for until, its in early.items():
        config = dataclasses.replace(run.config, until=until, episodes=700)
        assert run._replace(config=config, result=its).has_reached_goal
        assert not run._replace(config=dataclasses.replace(config, episodes=70), result=its).has_reached_goal
    stopped = dataclasses.replace(run.config, until="mastered", episodes=700)
    assert not run._replace(config=stopped, result=result).has_reached_goal  # by a callback


def test_the_curve_ends_with_the_return_of_the_trained_policy(tried_out):
    """An evaluation that ended the run was high because it was waited for."""
    run = collect.read_run(tried_out / "0")
    before = {name: numbers[:-1] for name, numbers in run.evaluations.items()}
    lucky = {name: np.append(numbers, 70 if name == "episode" else 1) for name, numbers in before.items()}
    drawn = page_data.drawn_log(run._replace(evaluations=lucky))
    assert drawn[page_data.GREEDY][-1] == run.result.greedy_return.mean != 1


def test_the_page_begins_with_the_result(browser, tried_out):
    assert main(["report", str(tried_out)]) == 0
    browser.open(tried_out / "report.html")
    assert browser.run("document.querySelector('main').firstElementChild.id") == "headline"
    card = browser.run("document.querySelector('.card').textContent")
    results = [runs.read_result(tried_out / str(seed)) for seed in (0, 1)]
    mean = np.mean([result.greedy_return.mean for result in results])
    assert float(browser.run("document.querySelector('.big').textContent")) == pytest.approx(mean, rel=1e-3, abs=1e-6)
    for words in (
        "2 seeds",
        "First evaluation of at least ",
        "Largest |Q|",
        "possible return",
        "tdu train deep_sea",
        "--seeds 2",
        f"tdu {tdu.__version__}, jax ",
    ):
        assert words in card
    assert collect.collect([tried_out]).runs[0].date in card


def test_when_a_policy_was_first_as_good():
    arrays = {"episode": np.array([10, 20, 30]), "steps": np.array([100, 200, 300]),
              "greedy_return": np.array([0.2, 0.9, 0.5]), "standard_error": np.zeros(3),
              "evaluation_episodes": np.full(3, 10), "mean_length": np.full(3, 9.0),
                  "success_rate": np.array([0.1, np.nan, 0.6])}  # fmt: skip
    config = runs.RunConfig("catch/0", "tdu", 0, 30, None, 1, "budget", {})
    first = collect.StoredRun(Path("a"), "tdu", config, None, "running", "", {}, arrays, None, None, [])
    later = first._replace(
        config=dataclasses.replace(config, seed=1), evaluations=arrays | {"greedy_return": np.zeros(3)}
    )
    assert (first.trained_return.mean, first.best_return) == (0.5, 0.9)
    assert first.first_reached(0.5) == (20, 200)
    assert headline.reached([first, later], 0.5).by_seed == {0: 200, 1: None}
    assert str(headline.reached([first, later], 0.5)) == "1 of 2 seeds"
    assert str(headline.reached([first, later, first], 0.1)) == "1 of 2 seeds"
    assert str(headline.first_as_good([first])) == "step 200"
    assert headline.first_as_good([first]).what.endswith(" 0.5")
    assert " 0 to 0.5," in headline.first_as_good([first, later]).what
    assert headline.first_as_good([first._replace(log={"episode_return": np.zeros(9)})]) is None
    assert headline.first_as_good([first._replace(log={"episode_return": np.arange(9.0)})]) is not None
    found = headline.headline([first, later])
    assert (found.seeds, found.mean, found.low, found.high, found.best) == (2, 0.25, 0, 1, 0.9)
    assert (found.mean_length, found.success_rate) == (9, 0.6)
    assert headline.headline([first._replace(evaluations={})]).mean is None


def test_the_command_of_a_run_makes_the_same_run(sweep):
    from tdu.cli.train import parse
    from tdu.cli.training import run_settings
    from tdu.run.plan import resolve

    for run in collect.collect([sweep]).runs:
        program, verb, *arguments = collect.command(run.config, [run.config.seed]).split()
        assert (program, verb) == ("tdu", "train")
        assert resolve(**run_settings(*parse(arguments))).config == run.config
    watched = dataclasses.replace(run.config, evaluate_every=5, until_return=0.5, success_return=0.2, record=True)
    again = collect.command(watched, [watched.seed]).split()[2:]
    assert resolve(**run_settings(*parse(again))).config == watched
    config = dataclasses.replace(run.config, env="object:Mine")
    assert collect.command(config, [0]) is None


def test_solved_is_shown_only_where_it_applies(sweep):
    run = collect.collect([sweep]).runs[0]
    assert "solved at episode" in page.write(collect.Collected([run], [], {}), "t")
    bare = run._replace(result=dataclasses.replace(run.result, has_solved_rule=False, solved_episode=None))
    assert "olved" not in page.write(collect.Collected([bare], [], {}), "t").partition("<script")[0]


def test_numbers_are_short_and_have_thousands_separators():
    numbers = {12345678: "12,345,678", 1234.56: "1,235", 0.123456: "0.1235", -0.5: "-0.5", 0: "0", 100.0: "100"}
    numbers |= {1.5e-7: "1.5e-07", float("nan"): "not a number", 1e300: "1e+300"}
    assert {value: rounded(value) for value in numbers} == numbers


def test_values_that_have_diverged_are_marked(sweep):
    run = collect.collect([sweep]).runs[0]
    for largest, diverged in ((2.5, False), (50.0, True)):
        result = dataclasses.replace(run.result, largest_q=largest, possible_return=1.0)
        text = page.write(collect.Collected([run._replace(result=result)], [], {}), "t")
        assert ("diverged" in text.partition("<script")[0]) is diverged


def test_a_film_in_the_folder_is_shown(browser, sweep, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(sweep / "bdqn-1", folder)
    assert main(["report", str(folder)]) == 0
    assert f"tdu watch {folder} --out {folder}/film.gif" in (folder / "report.html").read_text()
    assert main(["watch", str(folder), "--out", str(folder / "film.gif")]) == 0
    assert main(["report", str(folder)]) == 0
    browser.open(folder / "report.html")
    assert browser.run("document.querySelector('img.film').naturalWidth") > 20
    assert browser.problems == []
    (folder / "film.gif").write_text("<script>")
    assert any("film.gif" in note for note in collect.read_run(folder, with_record=True).notes)


def test_an_agent_has_one_colour_whoever_is_beside_it():
    assert palette.assign(["dqn", "tdu"]) == {"dqn": "dqn", "tdu": "tdu"}
    variants = palette.assign(["tdu beta=0", "bdqn", "tdu", "mine"])
    assert (variants["tdu"], variants["bdqn"]) == ("tdu", "bdqn")
    assert len(set(variants.values())) == 4
    assert "dqn" not in variants.values()  # a variant does not look like another common agent
    assert set(palette.COLOURS) == set(agents.AGENTS)
    assert len({colour for pair in palette.COLOURS.values() for colour in pair}) == 2 * len(palette.COLOURS)
    many = [f"tdu beta={i}" for i in range(40)]
    assert list(palette.assign(many)) == many


def test_runs_with_different_budgets_are_different_agents(sweep):
    run = collect.collect([sweep]).runs[0]
    longer = run._replace(config=dataclasses.replace(run.config, episodes=700))
    assert len(collect.groups(collect.with_budgets([run, run]))) == 1
    (_, short), (_, long) = collect.groups(collect.with_budgets([run, longer]))
    assert short.endswith(" episodes=70 until=budget")
    assert long.endswith(" episodes=700 until=budget")
    text = page.write(collect.Collected(collect.with_budgets([run, longer]), [], {}), "t")
    assert text.count('class="card"') == 2


def test_heads_that_met_no_reward_look_neither_good_nor_bad(browser, tmp_path):
    settings = {"hidden_sizes": (4,), "exploiters": 2, "evaluation_episodes": 0, "progress": None}
    tdu.train("binary_tree:depth=40", "bdqn", episodes=20, until="budget", out=tmp_path / "run", **settings)
    page.save([tmp_path / "run"], tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    browser.run("""(() => {
        const Real = uPlot;
        window.charts = [];
        window.uPlot = function (...a) { const one = new Real(...a); charts.push(one); return one; };
        uPlot.rangeNum = Real.rangeNum;
        for (const s of document.querySelectorAll('.metric, #strip')) s.dispatchEvent(new Event('change'));
    })()""")
    assert browser.run("charts.map(c => [c.scales.y.min, c.scales.y.max])") == [[-1, 1], [-1, 1]]
    assert "All mean returns are 0." in browser.run("document.getElementById('who-caption').textContent")
