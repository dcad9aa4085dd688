"""One colour per agent, on every page and in every figure."""

import itertools
from collections.abc import Iterable
from typing import NamedTuple


class Colour(NamedTuple):
    """A colour on a light and on a dark background."""

    light: str
    dark: str


COLOURS = {
    "tdu": Colour("#0b6e4f", "#58c49c"),
    "bdqn": Colour("#3b6fb6", "#84b1f0"),
    "dqn": Colour("#c0504d", "#f08a84"),
    "qu": Colour("#b8741a", "#e8b061"),
    "q_ucb": Colour("#7a4fa3", "#bd97e4"),
    "qex": Colour("#3a3f44", "#c9ced3"),
    "cts": Colour("#2b8ea3", "#71cfe2"),
    "su": Colour("#9a7a1f", "#d9c067"),
    "nns": Colour("#b0488c", "#ee98cd"),
    "rnd": Colour("#6b8e23", "#b4d56a"),
    "tdu_ac": Colour("#4650b8", "#a3a9f5"),
    "r2d2": Colour("#8c5a3c", "#d3a184"),
    "b_r2d2": Colour("#5f7d95", "#a9c3d8"),
    "tdu_r2d2": Colour("#1f9e8f", "#6fe0d2"),
    "tdu_r2d2_prior": Colour("#a3375a", "#f08fae"),
}


def assign(labels: Iterable[str]) -> dict[str, str]:
    """The agent in `COLOURS` whose colour each label has.

    A label is an agent's name, with its changed options. The shortest label of an agent has the agent's own colour. Other
    variants and unknown agents get unused colours, the last ones first: those are the least common agents'.
    """
    labels = list(dict.fromkeys(labels))
    taken: dict[str, str] = {}
    for label in sorted(labels, key=len):
        agent = label.split(" ")[0]
        if agent in COLOURS and agent not in taken.values():
            taken[label] = agent
    free = itertools.cycle([agent for agent in reversed(COLOURS) if agent not in taken.values()] or COLOURS)
    return {label: taken.get(label) or next(free) for label in labels}
