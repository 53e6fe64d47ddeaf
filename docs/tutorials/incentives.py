# %% [markdown]
# # Real data: what to offer people who could learn their HIV result
#
# In rural Malawi 2,825 people who had been tested drew a voucher from nothing to three dollars, paid to those who came for
# their result (Thornton, *American Economic Review* 98, 2008). The trial is in the package `causaldata` (MIT licence), which
# is the download; a script of the repository reads its file. **Question:** if we could offer only what helps, what would it be?
#
# ```text
# pip install --no-deps causaldata==0.1.5
# python examples/real_data.py incentives offers.csv
# ```

# %%
import subprocess
import sys

import poela

script = [sys.executable, "examples/real_data.py"]
subprocess.run([*script, "incentives", "offers.csv"], check=True)
columns = {
    "action": "offer",
    "context": ["km", "age"],
    "cluster": "village",
    "propensity": [
        "chance_nothing",
        "chance_small",
        "chance_medium",
        "chance_large",
    ],
}
logs = poela.read_logs("offers.csv", reward="came", **columns)
print(logs)

# %% [markdown]
# ## Audit: was it the trial that we think it was?
#
# The voucher's amount is grouped: nothing, below 90 cents, below 1.85 dollars, more. Which village drew how is not in the file, but
# it can be asked. In villages 1 to 88 one in seven drew nothing, in villages 100 to 145 more than one in three. So the chances
# here are the shares in three blocks of villages. One share for all would be wrong, and would blame or praise an offer for its villages.
# Neighbours share a road and a clinic, so villages are clusters. What a person was paid, and whether they came, are known only
# afterwards: they are no context. HIV status is left out because the person who hands out vouchers may not know it.

# %%
import pandas as pd

table = pd.read_csv("offers.csv")
print(table.groupby("block")[columns["propensity"]].first().round(2))
print(table.groupby("offer")[["came", "paid"]].mean().round(2))

# %% [markdown]
# ## Answer: if only coming counts

# %%
study = poela.learn(logs, learners=["rules"], backend="inline")
print(study.answer)

# %% [markdown]
# Nobody needed a computer for that. The next question is nearer to what a ministry asks.
#
# ## Answer: if a person who learns the result is worth four dollars
#
# Then a dollar costs a quarter of a person, and the reward is `came - 0.25*paid`.

# %%
priced = poela.read_logs("offers.csv", reward="came - 0.25*paid", **columns)
study = poela.learn(priced, learners=["rules"], backend="inline")
print(study.answer)
print(study.rule)

# %% [markdown]
# The answer is another one than before: small vouchers bring most of the people for little money. The price decides which. That is a value to be argued about, not one
# that data can tell: four dollars is ours, for this page.
#
# ## A page for those who decide, and the decision
#
# On the command line: `poela report study/ --logs offers.csv --out offers.html`.

# %%
if not study.keeps_logging_policy:
    decisions = study.decide(table.head(4)).to_pandas()
    print(decisions.filter(regex="^(action|propensity_|defer)"))

# %% [markdown]
# ## Is it true? Ask the other half
#
# Learned on half of the villages and asked on the other half, over and over: [what is shown on real trials, and what the other half
# says](../results/real-trials.md). With half of the villages it often says *keep what you do*.
#
# ## What a referee would say
#
# - *The shares are read off the data.* Yes: the file does not say how each bag was filled. Within villages 1 to 18 the share of empty vouchers
#   still varies more than chance (chi-square 46 on 16 degrees of freedom), in the other blocks it does not. Comparing people within the same village
#   gives nearly the same: +0.30, +0.44 and +0.51 for small, medium and large over nothing, where plain means give +0.35, +0.46 and +0.52.
# - *Only those who were tested and found again are in the table.* The answer is for people like them.
# - *Coming for a result is not health.* The study also asked what people did later; that is another table.
# - *Vouchers that everybody knows of may work otherwise than a lottery.* No log can tell. Try it in some villages first, with chances logged.
