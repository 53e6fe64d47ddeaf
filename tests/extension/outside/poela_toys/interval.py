"""An interval: from the smallest to the largest contribution."""

from collections.abc import Sequence

from poela.stats.bounds import Interval, IntervalMethod, Sample


def ends(sample: Sample, levels: Sequence[float]) -> list[Interval]:
    values = sample.contributions.numerators[:, 0]
    return [Interval(float(values.min()), float(values.max()), "range") for _ in levels]


RANGE = IntervalMethod(ends)
