# %% [markdown]
# # Tutoring: sessions in the order of their rows
#
# A tutoring program gives a hint, a worked example or no help, five times a session, and a test follows. The file has tabs
# and no step numbers: its rows stand in their order. A script of the repository makes such a file.

# %%
import subprocess
import sys

import poela

make = [sys.executable, "examples/tutoring.py"]
subprocess.run([*make, "tutoring.tsv", "--sessions", "600"], check=True)
layout = poela.LogLayout(
    episode="session",
    step="rows",
    cluster="student",
    action="help",
    propensity="chance",
    reward="score",
)
logs = poela.read_logs("tutoring.tsv", layout=layout)
print(logs)

# %% [markdown]
# `step="rows"` says that the order of rows is the order of exercises. Without it a table without step numbers is refused:
# a sorted file would be learned from backwards. `score` stands on the last row of each session and counts as 0 before.

# %%
candidate = poela.Candidate(
    "fittedq", {"backup": "max", "rule": {"radius": "q100", "scale": "standard"}}
)
study = poela.learn(logs, candidates=[candidate], backend="inline", out="study")
print(study.answer)

# %% [markdown]
# ## From cautious to bold
#
# Every policy that was judged stands on a ladder. The bolder it is, the fewer logged sessions speak for it (`ess`), and
# at some point nothing is shown any more. [How to read it](../start/answer.md#the-ladder).

# %%
ladder = study.ladder().to_pandas().round(1)
print(ladder[["note", "gain", "shown", "ess", "verdict"]].to_string(index=False))

# %% [markdown]
# ## Decide
#
# `needs` says what a policy looks at. This one counts steps; one that looks back at earlier exercises needs the rows of
# each session so far, in one table, and follows the sessions by their ids.

# %%
subprocess.run([*make, "today.tsv", "--sessions", "4", "--seed", "9"], check=True)
if not study.keeps_logging_policy:
    print(study.policy.needs)
    decisions = study.decide("today.tsv").to_pandas()
    print(decisions.filter(regex="^(action|propensity_|similar)").head())
