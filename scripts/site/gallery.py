"""The gallery: pages that the tool made, each by the commands of its entry, stored in docs/gallery.

pip install --no-deps causaldata==0.1.5
python scripts/site/gallery.py [NAME ...] [--out docs/gallery]
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "gallery"
OFFERS = (
    "--action offer --context km,age --cluster village --learners rules"
    " --propensity chance_nothing,chance_small,chance_medium,chance_large"
)
DOSES = """
from pathlib import Path
text = '[[grid]]\\nlearner = "continuouspoela"\\nhidden = [[]]\\nradius = ["q100"]\\nleast_ess = [100]\\n'
Path("candidates.toml").write_text(text)
"""
ACTED = """
import poela
from poela.simulators.episodes import run
from poela.simulators.registry import source
from pyarrow.parquet import write_table
write_table(run(source("tumor").simulator, poela.load_policy("study/policy"), 200, 5).to_table(), "acted.parquet")
"""
PAGES = {
    "change": (
        "poela simulate tumor --episodes 300 --seed 0 --out logs.parquet",
        "poela learn logs.parquet --out study/ --learners rules",
        "poela report study/ --logs logs.parquet --title 'Change (simulated tumors)' --out change.html",
    ),
    "incentives": (
        "python examples/real_data.py incentives offers.csv",
        f"poela learn offers.csv --out study/ {OFFERS} --reward 'came - 0.25*paid'",
        "poela report study/ --logs offers.csv --title 'Offers, a person informed worth four dollars (a real trial)'"
        " --out incentives.html",
    ),
    "keep": (
        "python examples/real_data.py training training.csv",
        "poela learn training.csv --out study/ --action training --reward earned --propensity chance_yes,chance_no"
        " --learners rules",
        "poela report study/ --logs training.csv --title 'Keep what you do (a real trial of job training)'"
        " --out keep.html",
    ),
    "guardrail": (
        "python examples/real_data.py incentives offers.csv",
        f"poela learn offers.csv --out study/ {OFFERS} --reward came --guard 'paid <= 0'",
        "poela report study/ --logs offers.csv --title 'More people, for no more money: a guardrail fails'"
        " --out guardrail.html",
    ),
    "doses": (
        "python examples/doses.py doses.csv --patients 500",
        f"python -c {shlex.quote(DOSES)}",
        "poela learn doses.csv --out study/ --episode patient --step visit --action dose --log-density log_density"
        " --reward benefit --candidates candidates.toml --folds 3",
        "poela report study/ --logs doses.csv --title 'Doses (a simulated clinic)' --out doses.html",
    ),
    "watch": (
        "poela simulate tumor --episodes 300 --seed 0 --out logs.parquet",
        "poela learn logs.parquet --out study/ --learners rules",
        f"python -c {shlex.quote(ACTED)}",
        "poela watch study/ --logs acted.parquet --before logs.parquet --page watch.html",
    ),
}


def made(name: str, out: Path) -> None:
    """Run the commands of a page in an empty folder, and keep the page."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="gallery-") as folder:
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        for command in PAGES[name]:
            done = subprocess.run(
                shlex.split(command), cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
            )
            if done.returncode not in (0, 3):  # 3: `watch` found something
                sys.exit(f"{name}: {command}\n{done.stderr}")
        (out / f"{name}.html").write_bytes((Path(folder) / f"{name}.html").read_bytes())


def main() -> None:
    """Make some, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*PAGES], metavar="NAME")
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    for name in asked.names:
        print(name, flush=True)
        made(name, asked.out)


if __name__ == "__main__":
    main()
