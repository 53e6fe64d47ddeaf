"""How much better: the lower bound and the best estimate against what is done now."""

from markupsafe import Markup

from poela.report.pictures.drawing import Drawing, Scale

WIDTH, HEIGHT, MIDDLE = 330.0, 62.0, 32.0  # narrower than others: it stands in a narrow panel
HALF_LETTER, NOW = 3.5, "now"


def gain_line(low: float, value: float, at_least: str, best: str, label: str) -> Markup:
    """A line with what is done now at zero, a bar from the lower bound to the best estimate, and both in words."""
    drawing = Drawing(HEIGHT, WIDTH)
    x = Scale.over([0.0, low, value], 14.0, WIDTH - 14, margin=0.12)
    drawing.line(x.first, MIDDLE, x.last, MIDDLE, "axis")
    drawing.line(x(0.0), MIDDLE - 9, x(0.0), MIDDLE + 9, "axis")
    drawing.rect(min(x(low), x(value)), MIDDLE - 4, abs(x(value) - x(low)), 8, "bar new")
    drawing.line(x(low), MIDDLE - 9, x(low), MIDDLE + 9, "span")
    drawing.dot(x(value), MIDDLE, 6, "new")
    _label(drawing, x(value), MIDDLE - 14, best)
    _label(drawing, x(low), MIDDLE + 24, at_least)
    for place, y, words in ((x(low), MIDDLE + 24, at_least), (x(value), MIDDLE - 14, best)):
        if abs(_within(place, words) - x(0.0)) > HALF_LETTER * len(words) + 16:  # where there is room
            drawing.text(x(0.0), y, NOW, "tick", "middle")
            break
    return drawing.svg(label)


def _label(drawing: Drawing, x: float, y: float, words: str) -> None:
    """Words centred on a place, but never beyond the picture."""
    drawing.text(_within(x, words), y, words, "strong", "middle")


def _within(x: float, words: str) -> float:
    half = HALF_LETTER * len(words)
    return min(max(x, half + 2), WIDTH - half - 2)
