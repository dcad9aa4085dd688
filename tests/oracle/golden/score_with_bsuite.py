"""Makes bsuite_scores.json with bsuite 0.3.6's own code, in an environment of its own (nothing of tdu is needed):

python3.11 -m venv old && old/bin/pip install bsuite==0.3.6 'pandas==1.5.3' 'numpy<2' 'plotnine<0.13' 'matplotlib<3.8'
old/bin/python tests/oracle/golden/score_with_bsuite.py
"""

import json
from pathlib import Path

import pandas as pd
from bsuite.experiments import summary_analysis
from bsuite.logging import logging_utils

HERE = Path(__file__).parent


def main() -> None:
    frame = pd.read_csv(HERE / "bsuite_logs.csv.gz")
    golden = {"pandas": pd.__version__, "agents": {}}
    for agent, rows in frame.groupby("agent"):
        joined = logging_utils.join_metadata(rows.drop(columns="agent").copy())
        scores = summary_analysis.bsuite_score(joined)
        tags = summary_analysis.ave_score_by_tag(scores, [])
        golden["agents"][agent] = {
            "scores": {r.bsuite_env: float(r.score) for r in scores.itertuples()},
            "finished": {r.bsuite_env: bool(r.finished) for r in scores.itertuples()},
            "tags": {r.tag: float(r.score) for r in tags.itertuples()},
        }
    (HERE / "bsuite_scores.json").write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
