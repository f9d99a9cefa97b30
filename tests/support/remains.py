"""Finds the bytes of a text in the files of a store, in every form in which a store may have them.

A text is in keys and values as it is, in descending keys inverted, and in the log in hexadecimal.
"""

from __future__ import annotations

import os
from pathlib import Path


def files_with(root: str | os.PathLike[str], text: str) -> list[str]:
    """Return the files below a folder, by their names in it, that hold a text in any form."""
    plain = text.encode()
    forms = [plain, bytes(255 - byte for byte in plain)]
    forms += [form.hex().encode() for form in forms]
    forms += [form.upper() for form in forms[2:]]
    files = (path for path in sorted(Path(root).rglob("*")) if path.is_file())
    return [
        str(path.relative_to(root))
        for path in files
        if any(form in path.read_bytes() for form in forms)
    ]
