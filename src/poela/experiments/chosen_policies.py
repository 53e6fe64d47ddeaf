"""Which policy of a learner a table shows: the paper's choice or, where none qualifies, one among all, marked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from poela.evaluation.estimate import Estimate
from poela.experiments.published.records import NO_PENALTY, Number
from poela.studies.candidates import Candidate
from poela.studies.selection import Scored, Selection, choose
from poela.studies.study import Study

ANY = "any"  # the least effective sample size of a learner none of whose policies has that of the paper
LEVEL = 0.90  # between the paper's two bounds, the 5% and 95% quantiles


@dataclass(frozen=True)
class Choosing:
    """The paper's two protocols: by validation SNTIS, with a least effective sample size as a share of the episodes."""

    least_share: float

    @property
    def least_ess(self) -> str:
        """The least effective sample size in words."""
        return f"{self.least_share:.1%}"

    @property
    def selections(self) -> dict[str, Selection]:
        """By protocol."""
        return {name: Selection("sntis", name, min_ess=self.least_share) for name in ("final", "best")}

    def chosen(self, items: Sequence[Scored], protocol: str, n_episodes: int) -> tuple[Scored | None, str]:
        """The choice, and the least effective sample size that a policy had to have: the paper's, or else any.

        >>> weak = Scored("a", 0, True, {"sntis": 5.0, "ess": 2.0})
        >>> strong = Scored("b", 0, True, {"sntis": 4.0, "ess": 31.0})
        >>> paper = Choosing(30 / 248)
        >>> paper.chosen([weak, strong], "final", 248)[1], paper.chosen([weak], "final", 248)[1]
        ('12.1%', 'any')
        """
        qualified = choose(items, self.selections[protocol], n_episodes).chosen
        if qualified is not None:
            return qualified, self.least_ess
        return choose(items, Selection("sntis", protocol), n_episodes).chosen, ANY


def by_learner(study: Study, name_of: Callable[[Candidate], str]) -> dict[str, list[Scored]]:
    """The policies of each learner, and those of POELA without a variance penalty."""
    found: dict[str, list[Scored]] = {}
    for item in study.scored:
        candidate = study.runs[item.run_id].task.candidate
        found.setdefault(name_of(candidate), []).append(item)
        if candidate.learner == "poela" and candidate.settings["variance_penalty"] == 0:
            found.setdefault(NO_PENALTY, []).append(item)
    return found


def unqualified(names: Sequence[str]) -> tuple[str, ...]:
    """The note under a table on learners none of whose policies qualifies.

    >>> unqualified([])
    ()
    """
    if not names:
        return ()
    return (
        "no policy has that effective sample size; chosen among all by validation SNTIS, which the paper's protocol "
        f"would not do, and therefore not judged: {', '.join(names)}",
    )


def estimated_numbers(
    learner: str, contexts: str, estimate: Estimate, least_ess: str, scale: float = 1.0
) -> Iterator[Number]:
    """SNTIS, its bounds and the effective sample size, as the paper's tables have them."""
    # The paper would not have chosen a policy of any size: it is set beside the paper's number, but not judged.
    judged = least_ess != ANY
    yield Number(learner, contexts, "SNTIS", scale * estimate.value, scale * estimate.standard_error, judged)
    for quantity, value in (("upper bound", estimate.high), ("lower bound", estimate.low)):
        if value is not None:
            yield Number(learner, contexts, quantity, scale * value)
    yield Number(learner, contexts, "ESS", estimate.ess)
