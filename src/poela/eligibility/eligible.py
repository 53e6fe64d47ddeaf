"""Which actions may be taken, worked out for some contexts."""

from dataclasses import dataclass

from poela.core.arrays import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Eligible:
    """What may be done at each of N contexts."""

    mask: BoolArray  # [N, A], at least one action in each row
    stranded: BoolArray  # [N], nothing passed the rule: the fallback acted
    penalty: FloatArray | None = None  # [N, A], what scores lose where support is missing and has a price
    behavior: FloatArray | None = None  # [N, A], to be followed on stranded rows (fallback "behavior"); 0 on others

    @property
    def n_stranded(self) -> int:
        """How many contexts the fallback acted on."""
        return int(self.stranded.sum())
