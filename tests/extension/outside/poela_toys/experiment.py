"""An experiment."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poela.studies.options import Execution


@dataclass(frozen=True)
class Report:
    mean: float

    def to_dict(self) -> dict[str, Any]:
        return {"mean": self.mean}

    def __str__(self) -> str:
        return f"Guessing wins {self.mean:.0%} of the time."


class Guesses:
    summary = "how often guessing wins"

    def run(self, out: Path, quick: bool, seed: int, execution: "Execution") -> Report:
        from poela.simulators.registry import simulate

        report = Report(float(simulate("coin", episodes=400 if quick else 4000, seed=seed).returns().mean()))
        (out / "guesses.json").write_text(json.dumps(report.to_dict()))
        return report


EXPERIMENTS = {"guesses": Guesses()}
