"""Install a wheel into a new environment, away from the repository, and do there what the first page tells people.

    python scripts/try_wheel.py dist/poela-*.whl [--requirements requirements.lock] [--python python3.13]

With `--requirements lowest.txt --exact` all of these are installed, not only used as limits: that is how the lower
bounds of the dependencies are tried.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "start" / "first-study.md"
BASH = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)


def installed(wheel: Path, python: str, requirements: Path, exact: bool, folder: Path) -> Path:
    """The programs of a new environment that holds the wheel, and what pages need."""
    subprocess.run([python, "-m", "venv", str(folder / "env")], check=True)
    programs = folder / "env" / "bin"
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if exact:
        subprocess.run([*pip, "-r", str(requirements)], check=True)
        subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    else:
        subprocess.run([*pip, "-c", str(requirements), f"{wheel}[report]"], check=True)
    return programs


def follow(page: Path, programs: Path, folder: Path) -> None:
    """Run the commands of a page as they stand, in an empty folder, where the repository cannot be seen."""
    folder.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PATH"] = f"{programs}{os.pathsep}{env['PATH']}"
    where = "import poela; print(poela.__version__, poela.__file__)"
    subprocess.run([str(programs / "python"), "-c", where], cwd=folder, env=env, check=True)
    blocks = BASH.findall(page.read_text(encoding="utf-8"))
    if not blocks:
        sys.exit(f"{page} has no commands")
    for block in blocks:
        print(f"$ {block}", flush=True)
        subprocess.run(["bash", "-e", "-c", block], cwd=folder, env=env, check=True)


def main() -> None:
    """Install and follow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--requirements", type=Path, default=ROOT / "requirements.lock")
    parser.add_argument("--exact", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wheel-") as name:
        folder = Path(name)
        programs = installed(asked.wheel.resolve(), asked.python, asked.requirements.resolve(), asked.exact, folder)
        follow(PAGE, programs, folder / "work")
    print(f"{asked.wheel.name} installs and works, away from the repository")


if __name__ == "__main__":
    main()
