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

make = [sys.executable, "examples/doses.py"]
subprocess.run([*make, "doses.csv", "--patients", "500"], check=True)
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
candidate = poela.Candidate(
    "continuouspoela", {"hidden": (), "radius": "q100", "least_ess": 100}
)
study = poela.learn(
    logs, candidates=[candidate], folds=3, backend="inline", out="study"
)
print(study.answer)

# %% [markdown]
# ## Was it true?
#
# In a simulation we can treat 5,000 new patients by the recommended policy.

# %%
from poela.simulators.doses import Dosing, Titration


def true_gain(policy, clinic):
    """Over what is done now, whose value is known in closed form."""
    found = poela.true_value(policy, clinic, episodes=5000)
    gain = found.value - clinic.value(clinic.behavior)
    return f"{gain:+.2f} (± {found.standard_error:.2f})"


print(f"shown:     at least {study.gain.low:+.2f}")
print(f"estimated: {study.gain.value:+.2f}")
print(f"true:      {true_gain(study.policy, Dosing())}")

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
print(decisions.round(2).to_string(index=False))

# %%
print(study.policy.explain(logs.contexts[0], action=[12.0]))

# %% [markdown]
# ## Ten adjustments in a row
#
# An infusion is adjusted ten times. Now a weight is a product of ten ratios, so as many patients vouch for a much smaller
# change. The column `ess` says so.

# %%
subprocess.run(
    [*make, "rates.csv", "--problem", "titration", "--patients", "400"], check=True
)
layout = poela.LogLayout(
    episode="patient",
    step="visit",
    action=["rate"],
    log_density="log_density",
    reward="benefit",
)
rates = poela.read_logs("rates.csv", layout=layout)
ten = poela.learn(rates, candidates=[candidate], folds=3, backend="inline")
ladder = ten.ladder().to_pandas().round(2)
print(ladder[["note", "gain", "shown", "ess", "verdict"]].to_string(index=False))

# %% [markdown]
# Bolder policies promise more, but this log cannot show it: more of the weight hangs on a few patients than ten ratios
# explain, so the verdict is caution, then do not trust. In this clinic they are worth what they promise; the study cannot
# know that. One that is better by its own bound is worth a trial, where trying is safe.

# %%
for name, policy in {"recommended": ten.policy, "worth a trial": ten.promising}.items():
    if policy is not None:
        print(f"{name}: truly {true_gain(policy, Titration())}")

# %% [markdown]
# How distances, densities and learners work: [real-valued actions](../continuous.md).
