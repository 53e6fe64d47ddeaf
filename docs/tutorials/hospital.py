# %% [markdown]
# # Hospital stays: from a spreadsheet to decisions
#
# A ward kept a table of decisions about fluids. A spreadsheet wrote it: semicolons, words, gaps, a time for each row,
# several stays of some patients, and whether the patient survived on the last row of a stay alone.
# A script of the repository makes such a file.

# %%
import subprocess
import sys
from pathlib import Path

import poela

make = [sys.executable, "examples/hospital.py"]
subprocess.run([*make, "stays.csv", "--stays", "1200"], check=True)
print("\n".join(Path("stays.csv").read_text().splitlines()[:3]))

# %% [markdown]
# ## Say which column plays which part
#
# Survival counts a hundred times as much as a unit of cost. Severity has an order. Stays of one patient are never split
# between learning and judging. What was made of the table is told in notes, with counts.

# %%
layout = poela.LogLayout(
    episode="stay",
    step="time",
    cluster="patient",
    action="fluid",
    propensity="chance",
    reward="survived - 0.01*cost",
    ordinal={"severity": ["low", "middle", "high"]},
)
logs = poela.read_logs("stays.csv", layout=layout)
print(logs)
for note in logs.notes:
    print("-", note)

# %% [markdown]
# ## Learn
#
# On the command line:
#
# ```text
# poela learn stays.csv --out study/ --episode stay --step time --cluster patient --action fluid --propensity chance \
#     --reward "survived - 0.01*cost" --ordinal "severity=low<middle<high" --learners fittedq,consensus
# ```

# %%
study = poela.learn(
    logs, learners=["fittedq", "consensus"], backend="inline", out="study"
)
print(study.answer)

# %% [markdown]
# With 1,200 stays little is shown, and the lower end is what counts. 600 stays show nothing that could not be chance.
#
# ## Decide about tomorrow's patients
#
# They are a table too. Its columns are found by name, in any order, and read as those of the log were. Columns that a
# decision does not need may be missing.

# %%
subprocess.run([*make, "tomorrow.csv", "--stays", "5", "--seed", "9"], check=True)
if not study.keeps_logging_policy:
    decisions = study.decide("tomorrow.csv").to_pandas()
    print(decisions.filter(regex="^(action|propensity_|defer|similar|outcome)").head(4))

# %% [markdown]
# Each row gets an action, drawn as the policy was judged, and the propensity of every action; the eligible actions with
# their distances, how many logged cases stand behind it, and `defer` where none is near:
# [deciding](../guides/deciding.md). How each kind of column is read:
# [tables](../guides/tables.md).
