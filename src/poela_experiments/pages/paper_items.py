"""The paper's tables and figures by their numbers, in the order of its source, and what stands beside each here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from poela_experiments.frame.judging import AGREES, VAGUE
from poela_experiments.frame.results import Report


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper, and ours beside it: a stored table, or a place and words."""

    number: str
    label: str  # in the paper's source
    shows: str
    experiment: str = ""
    key: str = ""  # of the stored table
    place: str = ""  # a page or picture, where there is no table of numbers
    judgement: str = ""  # in words, where numbers are not judged


_SEPSIS, _TUMOR, _POLE = "MIMIC-III sepsis", "tumor growth", "CartPole"
_SETTINGS = "deviations.md"
_GRIDS = "the same grids and steps; fewer restarts and checkpoints"
ITEMS = (
    Item("Figure 1", "fig:sepsis_traj_action_eligibility", "eligible actions of one patient", "sepsis", "eligible"),
    Item("Table 1", "tab:tumor_result_main", f"{_TUMOR}, behavior known", "tumor", "main"),
    Item("Table 2", "tab:sepsis_result_main", f"{_SEPSIS}, kNN behavior", "sepsis", "main"),
    Item("Table 3", "tab:sepsis_result_bc", f"{_SEPSIS}, BC", "sepsis", "bc"),
    Item("Table 4", "tab:sepsis_result_bcrnn", f"{_SEPSIS}, BCRNN", "sepsis", "bcrnn"),
    Item(
        "Figure 2a",
        "fig:overfitting_example",
        "diagram of example 2",
        place="results/counterexamples.md",
        judgement="a diagram: built as `HiddenBranch`",
    ),
    Item(
        "Figure 2b",
        "fig:example_patient_model_fail",
        "diagram of example 3",
        place="results/counterexamples.md",
        judgement="a diagram: built as a simulator",
    ),
    Item("Figure 2c", "fig:overfitting_example_result", "episodes needed, by H", "counterexamples", "needed"),
    Item(
        "Figure 3",
        "fig:exp_flow",
        "how settings are searched and tested",
        place=_SETTINGS,
        judgement="a diagram: followed, but for what deviations name",
    ),
    Item(
        "Table 5",
        "tab:hp_tumor",
        f"settings, {_TUMOR}",
        place=_SETTINGS,
        judgement="the same grids, steps and checkpoints; behavior known: PO-mu's thresholds that bar something",
    ),
    Item("Table 6", "tab:hp_sepsis", f"settings, {_SEPSIS}", place=_SETTINGS, judgement=_GRIDS),
    Item("Table 7", "tab:training_weights", "weight on low returns", "tumor", "weights"),
    Item("Table 8", "tab:training_weights_mdp", "weight on low returns, Markov", "tumor", "weights-markov"),
    Item("Table 9", "tab:sepsis_delta_study", f"{_SEPSIS}, by δ", "sepsis", "radius"),
    Item("Table 10", "tab:tumor_result_bc", f"{_TUMOR}, BC", "tumor", "bc"),
    Item("Table 11", "tab:tumor_result_bcrnn", f"{_TUMOR}, BCRNN", "tumor", "bcrnn"),
    Item("Table 12", "tab:tumor_result_checkpoint", f"{_TUMOR}, best checkpoint", "tumor", "checkpoint"),
    Item("Table 13", "tab:tumor_result_bc_checkpoint", "the same, BC", "tumor", "bc-checkpoint"),
    Item("Table 14", "tab:tumor_result_bcrnn_checkpoint", "the same, BCRNN", "tumor", "bcrnn-checkpoint"),
    Item("Table 15", "tab:sepsis_result_checkpoint", f"{_SEPSIS}, best checkpoint", "sepsis", "checkpoint"),
    Item("Table 16", "tab:sepsis_result_bc_checkpoint", "the same, BC", "sepsis", "bc-checkpoint"),
    Item("Table 17", "tab:sepsis_result_bcrnn_checkpoint", "the same, BCRNN", "sepsis", "bcrnn-checkpoint"),
    Item("Table 18", "tab:sepsis_noess_result", f"{_SEPSIS}, no least ESS", "sepsis", "no-least-ess"),
    Item(
        "Figure 4",
        "fig:sepsis_tradeoff",
        "value estimates against ESS",
        place="results/sepsis/radius-ess.png",
        judgement="other data; ours by δ beside it",
    ),
    Item(
        "Figure 5",
        "fig:sepsis_highsofa_visualization",
        "actions in high, mid and low SOFA contexts",
        place="results/sepsis/actions.svg",
        judgement="other data; ours in the same form",
    ),
    Item("Table 19", "tab:hp_cartpole", f"settings, {_POLE}", place=_SETTINGS, judgement=_GRIDS),
    Item("Table 20", "tab:cartpole_results", _POLE, "cartpole", "main"),
    Item("Table 21", "tab:cartpole_pomdp_results", f"{_POLE}, not Markov", "cartpole", "no-velocity"),
    Item("Table 22", "tab:cartpole_results_checkpoint", f"{_POLE}, best checkpoint", "cartpole", "checkpoint"),
    Item(
        "Table 23",
        "tab:cartpole_pomdp_results_checkpoint",
        "the same, not Markov",
        "cartpole",
        "no-velocity-checkpoint",
    ),
    Item("Table 24", "tab:d4rl_results", "six D4RL data sets", "mujoco", "scores"),
)
# What the paper's settings tables say, by experiment: our files must have the same.
GRIDS: Mapping[str, Mapping[tuple[str, str], tuple[float, ...]]] = {
    "tumor": {
        ("poela", "radius"): (0.05, 0.1, 0.5),
        ("pomu", "minimum_probability"): (0.01, 0.05, 0.1, 0.2),
        ("poela", "variance_penalty"): (0, 0.1, 1),
        ("pocrm", "variance_penalty"): (0, 0.1, 1),
        ("bcq", "threshold"): (0.0, 0.2),
        ("pql", "threshold"): (0.0, 0.2),
    },
    "sepsis": {
        ("poela", "radius"): (0.4, 0.6, 0.8, 1.0),
        ("pomu", "minimum_probability"): (0.01, 0.02, 0.05, 0.1),
        ("poela", "variance_penalty"): (0, 0.1, 1, 10),
        ("pocrm", "variance_penalty"): (0, 0.1, 1, 10),
        ("bcq", "threshold"): (0.0, 0.01, 0.05, 0.1, 0.3, 0.5),
        ("pql", "threshold"): (0.0, 0.01, 0.05, 0.1, 0.3, 0.5),
    },
    "cartpole": {
        ("poela", "radius"): (0.0001, 0.0005, 0.001, 0.005, 0.01),
        ("pomu", "minimum_probability"): (0.05, 0.1, 0.15, 0.2),
        ("poela", "variance_penalty"): (0, 0.1, 1, 10),
        ("pocrm", "variance_penalty"): (0, 0.1, 1, 10),
        ("bcq", "threshold"): (0.0, 0.05, 0.1, 0.2, 0.5),
        ("pql", "threshold"): (0.0, 0.05, 0.1, 0.2, 0.5),
    },
}


def item_rows(found: Mapping[str, Report], regenerated: Mapping[str, bool]) -> Iterator[list[str]]:
    """One row for each: number, what it shows, ours, the command, its state and the judgement."""
    for item in ITEMS:
        report = found.get(item.experiment)
        table = next((one for one in report.tables if one.key == item.key), None) if report else None
        if item.place:
            ours, command, state = f"[{item.place.rpartition('/')[2]}]({item.place})", "", ""
        elif table is None:
            ours, command, state = "", "", "no result"
        else:
            ours, command = f"[{table.title}](results/{item.experiment}.md)", f"`{table.command}`"
            state = "by this command" if regenerated[item.experiment] else "of an earlier version"
        judgement = item.judgement or ("not run" if table is None else _judgement([dict(row) for row in table.rows]))
        yield [item.number, item.shows, ours, command, state, judgement]


def _judgement(rows: list[dict[str, object]]) -> str:
    """In numbers, where there are any to judge.

    >>> _judgement([{"paper": 1.0, "agrees": "yes"}, {"paper": 2.0, "agrees": "no"}])
    '1 agree, 1 do not'
    """
    verdicts = [row.get(AGREES, "") for row in rows if row.get("paper") is not None]
    words = {"yes": "agree", VAGUE: "too vague to tell", "no": "do not"}
    counted = [f"{verdicts.count(verdict)} {word}" for verdict, word in words.items() if verdict in verdicts]
    return ", ".join(counted) or "stands beside, not judged"
