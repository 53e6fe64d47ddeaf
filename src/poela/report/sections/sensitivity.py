"""Sensitivity: how wrong weights may be, by something that was not recorded, before the gain is gone."""

from poela.evaluation.verdict import chances
from poela.report.blocks import Block, Picture, Pictures, Section, Text, needs_logs
from poela.report.numbers.weights import GammaCurve, gamma_curve
from poela.report.pictures.charts import Level, Line, Plane
from poela.report.study_logs import StudyLogs
from poela.studies.study import Study

TITLE = "Sensitivity to what was not recorded"


def sensitivity_section(study: Study, logs: StudyLogs | None) -> Section:
    """The curve of the gain over Γ."""
    data, gain = study.record.data, study.gain
    blocks: list[Block] = [
        Text(
            "If something that was not recorded moved both decisions and outcomes, weights are wrong. Γ says by how "
            "much: every weight may be up to Γ times too large or too small, in the worst way for the policy."
        )
    ]
    undone_by = None if gain is None else gain.undone_by
    blocks.append(Text(_vanishes(undone_by, shown=not study.keeps_logging_policy)))
    gamma = study.settings.selection.sensitivity
    if data.estimated:
        known = chances(data.layout.is_real).capitalize()
        words = f"{known} are estimates here, so what is shown as a gain has to survive Γ = {gamma:g}."
        blocks.append(Text(words))
    curve = None if logs is None else gamma_curve(logs)
    if curve is None:
        blocks.append(needs_logs("The curve of the gain over Γ", real=data.layout.is_real))
    else:
        blocks.append(Pictures((gamma_picture(curve, gamma if data.estimated else None),)))
    return Section("sensitivity", TITLE, blocks)


def _vanishes(gamma: float | None, *, shown: bool) -> str:
    if gamma is None:
        return "There is no gain that could vanish: no lower end is above zero."
    what = "What is shown" if shown else "The bound of the policy worth a trial"
    return f"{what} is gone at Γ = {gamma:.2f}; the estimated gain, below, later."


def gamma_picture(curve: GammaCurve, gamma: float | None) -> Picture:
    """The least gain over Γ, with where it vanishes and what was asked for."""
    levels = [Level(0.0, "no gain")]
    if curve.gains[0] > 0 and curve.vanishes <= curve.gammas[-1]:
        levels.append(Level(curve.vanishes, f"gone at Γ = {curve.vanishes:.2f}", upright=True))
    if gamma is not None and gamma <= curve.gammas[-1]:
        levels.append(Level(gamma, f"asked: {gamma:g}", upright=True))
    plane = Plane(
        "The least gain that weights wrong by a factor of up to gamma can leave",
        "Γ (log scale)",
        "gain in the worst case",
        lines=[Line(list(zip(curve.gammas.tolist(), curve.gains.tolist(), strict=True)), "newline")],
        levels=levels,
        log_x=True,
    )
    return Picture(
        "The gain in the worst case",
        plane.svg(),
        "At Γ = 1 weights are right, and the gain is as estimated; chance is not in this picture.",
    )
