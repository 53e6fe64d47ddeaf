# %% [markdown]
# # A cluster run with Ray
#
# A study is many independent runs: each learner, each fold, each restart. Ray spreads them over machines. Results on CPUs
# equal the local ones to the bit, so a cluster changes nothing but the waiting.
#
# `pip install 'poela[ray]'` on every machine, with the same versions.

# %%
import poela
from poela.simulators.registry import simulate

logs = simulate("tumor", episodes=100, seed=0)

# %% [markdown]
# ## Here first
#
# Without an address a small cluster starts on this machine and ends with the study. It is good for trying.

# %%
here = poela.learn(logs, learners=["consensus"], folds=3, backend="inline")
spread = poela.learn(logs, learners=["consensus"], folds=3, backend="ray", jobs=2)
print(spread.answer)

# %%
print("equal to the local study:", here.table().equals(spread.table()))

# %% [markdown]
# ## On a cluster
#
# Start Ray once, then give the study its address. The command runs anywhere that can reach the head:
#
# ```text
# ray start --head --port 6379                       # on the first machine
# ray start --address first-machine:6379             # on each of the others
# poela learn logs.parquet --out study/ --backend ray --address auto
# poela report study/ --watch 30 --out report.html   # meanwhile, elsewhere
# ```
#
# The log is put into Ray's object store once. Tasks of a lost machine are done again elsewhere. The study's folder stays
# on the machine that runs `poela learn`: after an interruption `--resume` goes on from there, with or without Ray.
#
# Networks of one shape train as one stack on a GPU instead: [studies](../guides/studies.md#where-it-runs).
