"""Build the wheel and the source distribution, twice, and fail unless both times are equal.

usage: distribution.py FOLDER

The files depend on the sources alone: all times in them are that of the last commit, or of the
variable SOURCE_DATE_EPOCH. Each build is of a new copy of the sources in another folder, without
what earlier builds and installations left in the checkout.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
_LEFT = ("__pycache__", "*.egg-info")


def main(folder: Path) -> None:
    """Build into a folder, which is emptied before."""
    folder = folder.absolute()  # the build runs in another one
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _commit_time()
    shutil.rmtree(folder, ignore_errors=True)
    with TemporaryDirectory(prefix="relstate-") as name:
        again = Path(name) / "dist"
        for number, built in enumerate((folder, again)):
            sources = Path(name) / f"sources{number}"
            copy_sources(sources)
            build(sources, built, epoch)
        for file in sorted(folder.iterdir()):
            if file.read_bytes() != (again / file.name).read_bytes():
                sys.exit(f"{file.name} is not the same when it is built again")
            print(f"{file.name}: {file.stat().st_size:,} bytes, equal when it is built again")


def copy_sources(copy: Path) -> None:
    """Copy to a new folder what is built."""
    copy.mkdir()
    ignored = shutil.ignore_patterns(*_LEFT)
    for name in ("vnode", "storage", "connector", "package", "docs"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, copy)


def build(sources: Path, folder: Path, epoch: str) -> None:
    """Build both files into a folder; ``epoch``: of all times in them, in seconds since 1970."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    variables = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    done = subprocess.run(
        command, cwd=sources, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    for file in folder.glob("*.tar.gz"):
        _normalize(file, int(epoch))


def _normalize(file: Path, epoch: int) -> None:
    """Replace what a source distribution has of the machine that built it: times, owners, modes."""
    buffer = io.BytesIO()
    with (
        tarfile.open(file) as source,
        tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as result,
    ):
        for member in sorted(source, key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            result.addfile(member, source.extractfile(member) if member.isfile() else None)
    file.write_bytes(gzip.compress(buffer.getvalue(), mtime=epoch))


def _commit_time() -> str:
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("this is no checkout: set SOURCE_DATE_EPOCH to the time of the sources")
    return done.stdout.strip()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
