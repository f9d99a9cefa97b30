"""The command by which relstate, with one of its extras, is installed again from where it came.

There is no release: no index has the package. So the command names the checkout or the wheel.

Does not know: what an extra brings.
"""

from __future__ import annotations

import json
import shlex
from urllib.parse import unquote, urlsplit

_ANYWHERE = '"{0}" in a checkout, or "FILE.whl{1}" with the wheel that `make dist` builds there'


def install_command(extra: str | None = None, *options: str) -> str:
    """Return ``pip install …`` for an extra, by default none; ``options``: of pip."""
    suffix = f"[{extra}]" if extra else ""
    origin, is_editable = _origin()
    words = ["pip install", *options]
    if origin is None:
        return " ".join([*words, _ANYWHERE.format(f".{suffix}", suffix)])
    words += ["-e"] if is_editable else []
    # In quotes: shells expand brackets.
    argument = f'"{origin}{suffix}"' if suffix and '"' not in origin else shlex.quote(origin)
    return " ".join([*words, argument])


def _origin() -> tuple[str | None, bool]:
    """Return (the folder or file that was installed, whether as editable); None if unknown."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("relstate").read_text("direct_url.json")
    except PackageNotFoundError:
        return None, False
    if text is None:
        return None, False
    origin = json.loads(text)
    address = urlsplit(origin["url"])
    if address.scheme != "file":
        return None, False
    return unquote(address.path), bool(origin.get("dir_info", {}).get("editable"))
