"""How plain policies are: the lower, the more easily people can say them and carry them out."""

IN_A_WORD, ONE_CONDITION, TWO_CONDITIONS = 0.0, 1.0, 2.0
BY_LOT = 2.5  # it can be said, but some of it is "more often": nobody draws lots by hand
BY_VALUES = 3.0  # a table says case by case what is barred; no sentence does
