# %% [markdown]
# # Rounds: from the first table to the third
#
# A clinic sends one of six reminders to each patient: it wants more days on treatment. One log can vouch for a policy near
# to what was done; acting by it makes a log that can vouch for the next step. Here are three such rounds, with receipts,
# and what is shown after each of them, at one error level of 5% over all.
#
# The world is made up, so that we can compare with the truth at the end.

# %%
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import poela

REMINDERS = ("none", "letter", "text", "call", "visit", "app")
USUAL = np.array([0.3, 0.34, 0.22, 0.05, 0.05, 0.04])


def patients(n, seed):
    """A case, and what is known of it."""
    rng = np.random.default_rng(seed)
    age, missed = rng.uniform(20, 90, n), rng.poisson(2, n)
    names = [f"{seed}-{number}" for number in range(n)]
    return pa.table({"case": names, "age": age, "missed": missed})


def days(cases, actions):
    """Expected days on treatment: calls help the old, the app the young."""
    age, missed = (cases[name].to_numpy() for name in ("age", "missed"))
    old = (age - 55) / 35
    gains = [0 * old, 1 + 0 * old, 2 - old, 4 + 4 * old, 3 + 0 * old, 4 - 5 * old]
    return 60 - 3 * missed + np.choose(actions, gains)


def outcomes(cases, said, seed):
    """What came of it, some weeks later: one row for each case."""
    codes = np.array([REMINDERS.index(name) for name in said])
    noise = 2 * np.random.default_rng(seed).normal(size=len(codes))
    return pa.table({"case": cases["case"], "reward": days(cases, codes) + noise})


# %% [markdown]
# ## The first table
#
# What the clinic did, by chances that it wrote down. `rounds=3` declares that there will be three rounds: each spends a
# third of the error.

# %%
cases = patients(600, seed=1)
codes = np.random.default_rng(2).choice(6, 600, p=USUAL)
said = [REMINDERS[code] for code in codes]
chances = {
    f"propensity_{name}": np.full(600, USUAL[place])
    for place, name in enumerate(REMINDERS)
}
table = pa.table(
    {
        "age": cases["age"],
        "missed": cases["missed"],
        "action": said,
        "reward": outcomes(cases, said, 3)["reward"],
        **chances,
    }
)
pq.write_table(table, "practice.parquet")
how = {"candidates": [poela.Candidate("fittedq")], "backend": "inline"}
study = poela.learn("practice.parquet", out="round1", rounds=3, **how)
print(study.answer)

# %% [markdown]
# ## What the next log should be
#
# Bolder policies look better, but too few of these 600 cases speak for them. `plan_next` (`poela plan round1/`) says who
# should act in what share of cases, and when the next step can be verified.

# %%
print(poela.plan_next(study))

# %% [markdown]
# ## Act, with receipts
#
# The clinic trusts what is shown, and acts by it in all new cases. `poela decide --receipts` writes down what was decided
# and by which probabilities. Outcomes come later.


# %%
def act(study, number, seed):
    """Decide about 600 new cases by a study, with receipts; and what came of them."""
    cases = patients(600, seed)
    pq.write_table(cases, f"cases{number}.parquet")
    asked = ["--rows", f"cases{number}.parquet", "--receipts", f"receipts{number}"]
    asked += ["--no-similar", "--out", f"decided{number}.parquet"]
    decide = [sys.executable, "-m", "poela", "decide", str(study.directory)]
    subprocess.run([*decide, *asked], check=True, capture_output=True)
    decided = pq.read_table(f"decided{number}.parquet")
    pq.write_table(
        outcomes(decided, decided["action"].to_pylist(), seed + 1),
        f"outcomes{number}.parquet",
    )
    return f"receipts{number}", f"outcomes{number}.parquet"


receipts, came = act(study, 2, seed=10)

# %% [markdown]
# While it runs, look as often as you like: the bound holds at every look.

# %%
print(poela.watch(study, receipts, outcomes=came))

# %% [markdown]
# ## Learn again
#
# The first log taught the policy that made the second one. So it judges nothing any more: it teaches, and the new log
# judges.

# %%
logs = [
    poela.read_logs("practice.parquet"),
    poela.read_logs(receipts, outcomes=came, logged_by="round1"),
]
second = poela.learn(logs, after="round1", out="round2", **how)
print(second.answer)

# %% [markdown]
# ## And a third time

# %%
acting = study if second.keeps_logging_policy else second
receipts, came = act(acting, 3, seed=20)
by = str(acting.directory)
logs.append(poela.read_logs(receipts, outcomes=came, logged_by=by))
third = poela.learn(logs, after="round2", out="round3", **how)
print(third.answer.headline)
print(third.answer.since)

# %% [markdown]
# ## What was shown, and the truth
#
# In a made-up world, what a policy is worth can be had from as many cases as one likes.

# %%
many = patients(50_000, seed=99)
contexts = np.stack([many["age"].to_numpy(), many["missed"].to_numpy()], axis=1)
worth = np.stack([days(many, np.full(50_000, place)) for place in range(6)], axis=1)
usual = float((worth @ USUAL).mean())
shown, true = [], []
for number, one in enumerate((study, second, third), start=1):
    if not one.keeps_logging_policy:
        chances = one.policy.probabilities(contexts)
        order = [one.policy.action_names.index(name) for name in REMINDERS]
        best = float((chances[:, order] * worth).sum(axis=1).mean()) - usual
        least = one.record.rounds.since(one.gain.low)
    shown.append(least)
    true.append(best)
    print(f"after round {number}: at least {least:+.2f} days, truly {best:+.2f}")

# %%
import io

from IPython.display import Image
from matplotlib.figure import Figure

figure = Figure(figsize=(6, 3.2), layout="constrained")
axes = figure.subplots()
axes.plot([1, 2, 3], true, "o--", color="0.5", label="true")
axes.plot([1, 2, 3], shown, "o-", color="tab:blue", label="shown, 95% over all rounds")
axes.set(
    xticks=[1, 2, 3], xlabel="round", ylabel="days gained since the first practice"
)
axes.set_ylim(bottom=0)
axes.legend(frameon=False)
picture = io.BytesIO()
figure.savefig(picture, format="png", dpi=100)
Image(picture.getvalue(), alt="Days gained, shown and true, after each of three rounds")
