# %% [markdown]
# # Clicks: 34 articles, one decision a row
#
# A front page draws one of 34 articles for each visitor and notes the probability of the draw. There are no episodes and
# no steps; a few percent click. A script of the repository makes such a file.

# %%
import subprocess
import sys

import poela

make = [sys.executable, "examples/clicks.py"]
subprocess.run([*make, "clicks.csv.gz", "--rows", "6000"], check=True)
logs = poela.read_logs(
    "clicks.csv.gz", action="article", propensity="chance", reward="clicked"
)
print(len(logs), "rows,", logs.n_actions, "articles")
print(logs.feature_names)

# %% [markdown]
# Where a table has no column `episode` or `step`, each row is an episode of its own, and a note says so.
#
# ## Learn from a yes/no outcome
#
# Bounds of returns 0 and 1 declare a yes/no outcome. That makes intervals honest where clicks are rare.
# On the command line:
#
# ```text
# poela learn clicks.csv.gz --out study/ --action article --propensity chance --reward clicked --returns 0,1 \
#     --learners fittedq
# ```

# %%
candidate = poela.Candidate(
    "fittedq", {"backup": "max", "rule": {"radius": "q100", "scale": "standard"}}
)
study = poela.learn(logs, candidates=[candidate], returns=(0, 1), backend="inline")
print(study.answer)

# %% [markdown]
# One candidate keeps this page quick. Without `candidates` all [default learners](../guides/learners.md) are tried.
#
# ## How many rows would it take?

# %%
from poela.studies.planning import plan

print(plan(logs, 0.02, returns=(0, 1), candidates=[candidate], backend="inline"))

# %% [markdown]
# Half the gain takes four times as many rows. On the command line: `poela plan clicks.csv.gz --gain 0.02 --action article
# --propensity chance --reward clicked`.
