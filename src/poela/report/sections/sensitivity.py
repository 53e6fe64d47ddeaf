"""Sensitivity: how wrong weights may be, by something that was not recorded, before the gain is gone."""

from poela.report.blocks import Block, Picture, Pictures, Section, Text, needs_logs
from poela.report.numbers.weights import GammaCurve, gamma_curve
from poela.report.pictures.charts import Level, Line, Plane
from poela.report.subject import Numbers, Subject
from poela.stats.verdict import chances
from poela.studies.answer import unconfounded_in_words

TITLE, ABOUT = "If something was not recorded", "sensitivity to hidden confounding (Γ)"


def sensitivity_section(subject: Subject) -> Section:
    """The curve of the gain over Γ."""
    study = subject.study
    data, gain, gamma = study.record.data, study.gain, study.settings.selection.sensitivity
    blocks: list[Block] = [
        Text(
            "If something that was not recorded moved both decisions and outcomes (hidden confounding), weights are "
            "wrong. Γ says by how much: every weight may be up to Γ times too large or too small, in the worst way."
        ),
        Text(_vanishes(None if gain is None else gain.undone_by, shown=not study.keeps_logging_policy)),
    ]
    if data.estimated:
        known = chances(data.layout.is_real).capitalize()
        blocks.append(Text(f"{known} are estimates here, so a gain counts as shown only if it survives Γ = {gamma:g}."))
    if middle := unconfounded_in_words(subject.result, study.record):
        blocks.append(Text(middle))
    if data.lost:
        blocks.append(
            Text(
                f"The outcomes of {data.lost:.0%} of cases were not seen. A gain counts as shown only if it survives "
                f"odds of having been seen that are wrong by a factor of {gamma:g}, too."
            )
        )
    curve = None if subject.logs is None else gamma_curve(subject.logs)
    if curve is not None:
        blocks.append(Pictures((gamma_picture(curve, gamma if data.estimated else None, Numbers.of(study)),)))
    elif not subject.real:
        blocks.append(needs_logs("The curve of the gain over Γ"))
    return Section("sensitivity", TITLE, blocks, ABOUT)


def _vanishes(gamma: float | None, *, shown: bool) -> str:
    if gamma is None:
        return "There is no gain to lose: no lower bound is above zero."
    what = "What is shown" if shown else "The bound of the policy worth a trial"
    return f"{what} is gone at Γ = {gamma:.2f}. The best estimate, in the picture, lasts longer."


def gamma_picture(curve: GammaCurve, gamma: float | None, numbers: Numbers) -> Picture:
    """The least gain over Γ, with where it vanishes and what was asked for."""
    levels = [Level(0.0, "no gain")]
    if curve.gains[0] > 0 and curve.vanishes <= curve.gammas[-1]:
        levels.append(Level(curve.vanishes, f"gone at Γ = {curve.vanishes:.2f}", upright=True))
    if gamma is not None and gamma <= curve.gammas[-1]:
        levels.append(Level(gamma, f"required: {gamma:g}", upright=True))
    gains = [numbers.scaled(gain) or 0.0 for gain in curve.gains.tolist()]
    plane = Plane(
        "The least gain that weights wrong by a factor of up to gamma can leave",
        "Γ (log scale)",
        f"gain in the worst case{numbers.unit}",
        lines=[Line(list(zip(curve.gammas.tolist(), gains, strict=True)), "newline")],
        levels=levels,
        log_x=True,
    )
    return Picture(
        "The gain in the worst case",
        plane.svg(),
        "At Γ = 1 weights are right, and the gain is the best estimate. Chance is not in this picture.",
    )
