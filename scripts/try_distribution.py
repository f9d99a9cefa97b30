"""Try the files of a distribution on the Pythons that the machine has, and on the oldest Spark.

usage: try_distribution.py FOLDER

Each file is installed alone in a new environment (bare_environment.py): the wheel on every Python,
the source distribution on one; the demo runs on the first. A Python that is missing is named.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13")
LEAST_SPARK = "4.1"
_PYENV = Path.home() / ".pyenv" / "versions"


def main(folder: Path) -> None:
    """Try all; exit with the first that fails."""
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    pythons = list(found_pythons())
    if not pythons:
        sys.exit(f"there is none of the Pythons {', '.join(PYTHONS)}")
    trials = [[str(wheel), "--python", python] for python in pythons]
    trials[0].append("--demo")
    trials.append([str(wheel), "--python", pythons[0], "--spark", LEAST_SPARK])
    trials.append([str(source), "--python", pythons[0]])
    for trial in trials:
        command = [sys.executable, str(Path(__file__).parent / "bare_environment.py"), *trial]
        if subprocess.run(command, check=False).returncode:
            sys.exit(f"it failed: {' '.join(trial)}")


def found_pythons() -> Iterator[str]:
    """Yield an interpreter of each of the Pythons that the machine has."""
    for version in PYTHONS:
        name = f"python{version}"
        candidates = [name, *map(str, _PYENV.glob(f"{version}.*/bin/{name}"))]
        python = next(filter(_works, candidates), None)
        if python is None:
            print(f"there is no Python {version}: it was not tried", flush=True)
        else:
            yield python


def _works(python: str) -> bool:
    try:
        return not subprocess.run([python, "-c", "import venv"], capture_output=True).returncode
    except OSError:
        return False


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
