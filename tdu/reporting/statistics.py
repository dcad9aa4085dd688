"""Numbers over seeds. A run that was not solved is censored: all that is known is that it takes longer than it was run."""

from collections.abc import Sequence

import numpy as np


def censored_median(solved: Sequence[int | None]) -> float | None:
    """The usual median, the mean of the middle two where there are two; None where the unsolved reach into the middle."""
    middle = float(np.median([np.inf if episode is None else episode for episode in solved]))
    return middle if np.isfinite(middle) else None


def median_words(solved: Sequence[int | None], episodes: int) -> str:
    """The median as people read it; `>E` where it is beyond the E episodes that were run."""
    middle = censored_median(solved)
    return f">{episodes}" if middle is None else f"{middle:g}"
