# %% [markdown]
# # Doses: real-valued actions, with the truth beside them
#
# A clinic gives each patient a dose, and notes the log of the density with which it was chosen.
# A script of the repository makes such a file. It is a simulation, so the truth is known.

# %%
import subprocess
import sys
from pathlib import Path

import poela

make = [sys.executable, "examples/doses.py", "make"]
subprocess.run([*make, "doses.csv", "--problem", "dosing", "--patients", "500"], check=True)
print("\n".join(Path("doses.csv").read_text().splitlines()[:3]))

# %% [markdown]
# ## Read
#
# `log_density` in the place of a propensity: that is all that differs from a table of finitely many actions.
# Several amounts at once are `action=["dose", "rate"]`, with one joint log density.

# %%
layout = poela.LogLayout(
    episode="patient",
    step="visit",
    action=["dose"],
    log_density="log_density",
    reward="benefit",
)
logs = poela.read_logs("doses.csv", layout=layout)
print(logs)

# %% [markdown]
# ## Learn
#
# On the command line, with all default settings:
#
# ```text
# poela learn doses.csv --out study/ --episode patient --step visit --action dose \
#     --log-density log_density --reward benefit
# ```
#
# One candidate and three folds keep this page quick: a dose that is linear in the features, within the range of what
# like patients were given, with at least 100 effective patients.

# %%
candidate = poela.Candidate("continuouspoela", {"hidden": (), "radius": "q100", "least_ess": 100})
study = poela.learn(logs, candidates=[candidate], folds=3, backend="inline", out="study")
print(study.answer)

# %% [markdown]
# ## Was it true?
#
# In a simulation we can treat 20,000 new patients by the recommended policy.

# %%
from poela.simulators.doses import Dosing, Titration


def beside_the_truth(study, clinic):
    """What the study says of its policy, and what that is worth."""
    now = clinic.value(clinic.behavior)  # in closed form
    found = poela.true_value(study.policy, clinic, episodes=20_000)
    print(f"shown: at least {study.gain.low:+.2f}; estimated: {study.gain.value:+.2f}")
    print(f"true:  {found.value - now:+.2f} (± {found.standard_error:.2f}), on top of {now:.2f}")


beside_the_truth(study, Dosing())

# %% [markdown]
# The study vouches for the lower number. It comes from patients that took no part in learning, and pays for all policies
# that were tried.
#
# ## Decide
#
# What to give the next patients, how much the policy varies it, and how many like patients were given about as much.
# `explain` says why an amount is barred.

# %%
decisions = study.decide(logs.take(range(3)).to_table()).to_pandas()
print(decisions[["dose", "spread", "defer", "similar", "outcome"]].round(2))

# %%
print(study.policy.explain(logs.contexts[0], action=[12.0]))

# %% [markdown]
# ## Ten adjustments in a row
#
# An infusion is adjusted ten times. Now a weight is a product of ten ratios, so as many patients vouch for a much smaller
# change. The column `ess` says so.

# %%
subprocess.run([*make, "rates.csv", "--problem", "titration", "--patients", "400"], check=True)
layout = poela.LogLayout(
    episode="patient",
    step="visit",
    action=["rate"],
    log_density="log_density",
    reward="benefit",
)
rates = poela.read_logs("rates.csv", layout=layout)
ten = poela.learn(rates, candidates=[candidate], folds=3, backend="inline")
print(ten.answer.splitlines()[0])
ladder = ten.ladder().to_pandas()
print(ladder[["note", "gain", "shown", "ess", "verdict"]].round(2).to_string(index=False))
if not ten.keeps_logging_policy:
    beside_the_truth(ten, Titration())

# %% [markdown]
# Bolder policies of the same path are worth more here, but this log cannot show it: more of the weight hangs on a few
# patients than ten ratios explain. `ten.promising` holds the most promising of them.
#
# How distances, densities and learners work: [real-valued actions](../continuous.md).
