"""The kernel works where nothing is installed but NumPy and SciPy."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

ALONE = """
import importlib.abc, pkgutil, sys

class Nothing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        standard = package in sys.stdlib_module_names or package.startswith("_sysconfigdata")
        if package not in ("numpy", "scipy", "poela") and not standard:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Nothing())
import poela.stats
for module in pkgutil.iter_modules(poela.stats.__path__):
    __import__(f"poela.stats.{module.name}")
page = open(sys.argv[1], encoding="utf-8").read()
for block in page.split("```python\\n")[1:]:
    exec(block.split("```")[0])
print(",".join(sorted(name for name in sys.modules if name.startswith("poela.") and name.count(".") == 1)))
"""


def test_the_kernel_and_its_page_need_numpy_and_scipy_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(ROOT / "docs" / "guides" / "kernel.md")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "poela.core,poela.stats"
