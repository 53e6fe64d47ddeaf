"""Formulas of the docs: MathML from the TeX in its `alttext`, so that pages need neither network nor script to show it.

    pip install latex2mathml
    python scripts/formulas.py docs/how-it-works.md

Write `<math alttext="x^2"></math>` (or with `display="block"`), then run this.
"""

import html
import re
import sys
from pathlib import Path

FORMULA = re.compile(r'<math( display="block")? alttext="([^"]+)">.*?</math>', re.DOTALL)


def written(found: re.Match[str]) -> str:
    """One formula."""
    from latex2mathml.converter import convert

    block, tex = found[1] or "", found[2]
    inner = re.sub(r"^<math[^>]*>|</math>$", "", convert(html.unescape(tex), display="block" if block else "inline"))
    inner = inner.replace("*", "&#x2217;").replace("_", "&#x5F;")  # which Markdown would read
    return f'<math{block} alttext="{tex}">{inner}</math>'


def main() -> None:
    """Rewrite the files in place."""
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(FORMULA.sub(written, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
