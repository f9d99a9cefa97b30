"""Golden stores: those that each released version wrote, packed in `tests/golden/<version>`.

Every later version reads, writes and checks them. An archive depends on the files in it alone.
"""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

from support.sources import ROOT

FOLDER = ROOT / "tests" / "golden"
_SUFFIX = ".tar.xz"


def golden_stores(name: str) -> list[str]:
    """Return the golden stores of a name, one of each version that wrote it, as `unpack` takes."""
    files = sorted(FOLDER.glob(f"*/{name}{_SUFFIX}"))
    return [f"{file.parent.name}/{name}" for file in files]


def unpack(store: str, folder: Path) -> Path:
    """Unpack a golden store, as ``0.1.0/rows``, into a folder; return the path of the store."""
    path = folder / store.replace("/", "-")
    path.mkdir()
    with tarfile.open(FOLDER / f"{store}{_SUFFIX}") as archive:
        # Python 3.11.0 to 3.11.3 have no filters; later ones read the attribute.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(path)
    return path


def pack(path: Path, file: Path) -> None:
    """Pack the files and folders of a store; equal ones give equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for item in sorted(path.rglob("*")):
            if item.name == ".signal":  # no part of the store
                continue
            member = tarfile.TarInfo(str(item.relative_to(path)))
            if item.is_dir():
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member)
            else:
                data = item.read_bytes()
                member.size, member.mode = len(data), 0o644
                archive.addfile(member, io.BytesIO(data))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))
