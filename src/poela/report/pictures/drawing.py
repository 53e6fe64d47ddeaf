"""SVG by hand: elements with escaped content, and scales with round ticks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from poela.core.readable import escaped

WIDTH = 420.0  # of every picture, in its own units: text of 12 units can be read on a phone and on a screen
MOST_LETTERS = 400  # of a tooltip
JOINERS = "\u200c\u200d\u200e\u200f"  # which some scripts need, and which turn nothing around that stands beside them


def clean(text: object, most: int | None = None) -> str:
    """Names as they may be shown: control characters and marks that turn text around as their numbers.

    Long ones lose their middle, since names that belong together often begin alike.

    >>> clean("a\\u202eb"), clean("fluid 0 vasopressor 3", 12)
    ('a\\\\u202eb', 'fluid 0…or 3')
    """
    shown = "".join(letter if letter in JOINERS else escaped(letter) for letter in str(text))
    if most is None or len(shown) <= most:
        return shown
    last = most // 3
    return f"{shown[: most - 1 - last]}…{shown[-last:]}"


def number(value: float) -> str:
    """A coordinate, to a tenth of a unit.

    >>> number(12.04), number(-0.01)
    ('12', '0')
    """
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


class Drawing:
    """A picture in the making."""

    def __init__(self, height: float, width: float = WIDTH) -> None:
        self.width, self.height = width, height
        self._parts: list[Markup] = []

    def element(self, tag: str, content: str | Markup = "", /, **attributes: object) -> None:
        """Add an element; underscores in names stand for hyphens, `css` for the class."""
        self._parts.append(_element(tag, content, attributes))

    def text(self, x: float, y: float, words: object, css: str = "", anchor: str = "start", tip: object = None) -> None:
        """A line of text, of whatever direction its letters have."""
        if words == "":
            return
        tip_text = None if tip is None else clean(tip, MOST_LETTERS)
        self.element("text", clean(words), x=x, y=y, text_anchor=anchor, css=css or None, data_tip=tip_text)

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str) -> None:
        """A line."""
        self.element("line", x1=x1, y1=y1, x2=x2, y2=y2, css=css)

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        css: str,
        tip: object = None,
        opacity: float | None = None,
    ) -> None:
        """A rectangle; `tip` is what it tells when it is pointed at."""
        tip_text = None if tip is None else clean(tip, MOST_LETTERS)
        more = {"fill_opacity": None if opacity is None else f"{opacity:.2f}", "data_tip": tip_text}
        self.element("rect", "", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), css=css, **more)

    def dot(self, x: float, y: float, radius: float, css: str, tip: object = None) -> None:
        """A dot."""
        tip_text = None if tip is None else clean(tip, MOST_LETTERS)
        self.element("circle", cx=x, cy=y, r=radius, css=css, data_tip=tip_text)

    def path(self, points: Sequence[tuple[float, float]], css: str) -> None:
        """A line through points."""
        if points:
            self.element("path", d="M" + "L".join(f"{number(x)} {number(y)}" for x, y in points), css=css)

    def svg(self, label: str) -> Markup:
        """The picture; `label` says what it shows to those who do not see it."""
        frame = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
        return frame.format(number(self.width), number(self.height), clean(label), Markup("").join(self._parts))


def _element(tag: str, content: str | Markup, attributes: dict[str, object]) -> Markup:
    names = {"css": "class"}
    shown = Markup("").join(
        Markup(' {}="{}"').format(
            names.get(name, name.replace("_", "-")), number(value) if isinstance(value, float | int) else value
        )
        for name, value in attributes.items()
        if value is not None
    )
    if not content:
        return Markup("<{}{}/>").format(tag, shown)
    return Markup("<{}{}>{}</{}>").format(tag, shown, content, tag)


@dataclass(frozen=True)
class Scale:
    """From values to places in the picture."""

    low: float
    high: float
    first: float  # the place of `low`
    last: float
    log: bool = False

    @classmethod
    def over(
        cls, values: Sequence[float], first: float, last: float, *, log: bool = False, margin: float = 0.05
    ) -> "Scale":
        """A scale over these values with a margin on both sides."""
        finite = [value for value in values if math.isfinite(value) and (value > 0 or not log)] or [1.0]
        low, high = min(finite), max(finite)
        if log:
            room = max((high / low) ** margin, 1.05)
            return cls(low / room, high * room, first, last, log=True)
        room = (high - low) * margin or abs(high) * margin or 1.0
        return cls(low - room, high + room, first, last)

    def __call__(self, value: float) -> float:
        """The place of a value; what lies beyond the scale stands at its end."""
        if self.log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.first + min(max(share, 0.0), 1.0) * (self.last - self.first)

    def ticks(self, about: int = 5) -> list[float]:
        """Round values within the scale.

        >>> Scale(0.0, 10.0, 0, 1).ticks(), Scale(0.8, 350.0, 0, 1, log=True).ticks()
        ([0.0, 2.0, 4.0, 6.0, 8.0, 10.0], [1.0, 3.0, 10.0, 30.0, 100.0, 300.0])
        """
        if self.log and self.high / self.low > 8:
            powers = [m * 10.0**power for power in range(-12, 13) for m in (1.0, 3.0)]
            inside = [value for value in powers if self.low <= value <= self.high]
            tens = [value for value in inside if round(math.log10(value), 6) % 1 == 0]
            return inside if len(inside) <= about + 2 else tens
        raw = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw * 0.75)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(place * step, 12) for place in range(first, last + 1)]


def short(value: float) -> str:
    """A tick's value.

    >>> short(1000.0), short(0.25), short(-5.0)
    ('1,000', '0.25', '−5')
    """
    return f"{value:,.6g}".replace("-", "−")


# How much better: the lower bound and the best estimate against what is done now.

GAINS_WIDTH, HEIGHT, MIDDLE = 330.0, 62.0, 32.0  # narrower than others: it stands in a narrow panel
HALF_LETTER, NOW = 3.5, "now"


def gain_line(low: float, value: float, at_least: str, best: str, label: str) -> Markup:
    """A line with what is done now at zero, a bar from the lower bound to the best estimate, and both in words."""
    drawing = Drawing(HEIGHT, GAINS_WIDTH)
    x = Scale.over([0.0, low, value], 14.0, GAINS_WIDTH - 14, margin=0.12)
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
    return min(max(x, half + 2), GAINS_WIDTH - half - 2)
