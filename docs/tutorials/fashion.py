# %% [markdown]
# # Real data: which garment to show, and when a log is too small
#
# ZOZO, a shop, showed 10,000 times one of 34 garments, drawn with equal chances, and logged the clicks (Open Bandit data, Saito et al. 2020,
# [arXiv 2008.07146](https://arxiv.org/abs/2008.07146)). The small sample is inside the package `obp` (Apache licence, version 2); newer versions of it
# do not install on Python 3.11, and version 0.4.1 has the same files. **Question:** which garment should whom be shown?
#
# ```text
# pip install --no-deps obp==0.4.1
# python examples/real_data.py fashion fashion.csv
# ```

# %%
import subprocess
import sys

import numpy as np

import poela

script = [sys.executable, "examples/real_data.py"]
subprocess.run([*script, "fashion", "fashion.csv"], check=True)
logs = poela.read_logs(
    "fashion.csv",
    action="garment",
    propensity="chance",
    reward="clicked",
    category=["position"],
)
clicks = int(logs.rewards.sum())
print(f"{len(logs):,} rows, {logs.n_actions} garments, {clicks} clicks")

# %% [markdown]
# ## Audit
#
# The draw was even, so nothing confounds: each garment has a chance of 1/34 in every row. But 46 clicks are one or two for each
# garment. Whoever ranks 34 garments by so few clicks and then reports the best one's rate on the same rows finds a winner at any time.

# %%
import pandas as pd

table = pd.read_csv("fashion.csv")
best = table.groupby("garment").clicked.agg(["sum", "size", "mean"])
print(best.sort_values("mean").tail(3).round(4))
print("all garments:", table.clicked.mean())

# %% [markdown]
# The best garments look several times as good as the mean. Are they?
#
# ## Answer: pick a winner on one half, judge it on the other

# %%
first, second = logs.split((0.5, 0.5), seed=0)
clicks_of = [first.rewards[first.actions == one].mean() for one in range(34)]
winner = int(np.argmax(clicks_of))


class Always:
    def probabilities(self, contexts):
        return np.tile(np.eye(34)[winner], (len(contexts), 1))


print(f"on the half that chose it: {max(clicks_of):.4f}")
rates = poela.Bounds(lowest_return=0.0, highest_return=1.0)
print(poela.evaluate(Always(), second, bounds=rates))

# %% [markdown]
# The second half agrees with the first one, by two clicks among some 150 rows. Two clicks decide nothing: the interval is everything that is
# possible, and the verdict says why. `poela learn fashion.csv --action garment --propensity chance --reward clicked
# --returns 0,1 --out study/` also tries policies that depend on the visitor.
#
# ## Decision
#
# The shop's full log has 26 million rows; this sample is for trying code. That is also the decision: keep what you do, and collect more.
#
# ## What a referee would say
#
# - *Three garments are shown at once, and one row is one of them.* What is clicked may depend on its neighbours. The log treats places alone.
# - *What is known of a visitor are four hashes.* Groups are numbered here by how common they are; nobody knows what they mean.
# - *The same visitor may come twice.* The sample has no column that says so, so no cluster can be named.
