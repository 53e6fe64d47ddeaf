"""A problem whose values are known exactly: two states, two actions, three steps.

Action 1 in state 1 may end the episode early, so that episodes are ragged.
"""

from poela.simulators.tabular import TablePolicy, TabularMDP

PROBLEM = TabularMDP(
    transitions=[[[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.1, 0.4]]],
    rewards=[[1.0, -0.5], [0.3, 2.0]],
    initial=[0.6, 0.4],
    horizon=3,
)
BEHAVIOR = TablePolicy(PROBLEM, [[0.4, 0.6], [0.6, 0.4]])
TARGET = TablePolicy(PROBLEM, [[0.9, 0.1], [0.25, 0.75]])
