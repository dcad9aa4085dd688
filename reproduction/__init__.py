"""The paper's experiments, their verdicts and statistics. They use the package `tdu` and are not part of it.

catalogue.py      every experiment by name; a new one is a file in experiments/ and a line here
experiments/      one module per figure or claim: the grid of runs, the rule of the verdict, tables and figures
theory/           the lemma and the theorems, which are computed and not trained
experiment.py     the types: a grid of runs, a verdict, the findings that a page shows
rows.py           results/NAME/runs.csv, one line per finished run
reproduce.py      makes the missing runs and adds their rows
pages.py          results/NAME/README.md, made from rows alone
command.py        the command `tdu reproduce`
statistics.py     intervals and tests for censored runs; analysis.py applies them to rows; wording.py formats them
origin.py         the commit and the processor of a row
drawing.py        figures that are the same bytes from the same numbers
deep_sea_runs.py, deep_sea_figures.py, atari_runs.py    shared by the experiments on Deep Sea and on Atari
"""
