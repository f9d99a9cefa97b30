"""The location of a store: what a path or URI that a user gives names.

Promises: only local folders; anything else is refused in words, before a file is touched.
Does not know: whether there is a store.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from .errors import OptionError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_LOCAL_FILE = re.compile(r"(?i:file):(?://(?i:localhost)?)?(/(?:[^/].*)?)", re.DOTALL)


def local_folder(path: str | os.PathLike[str]) -> str:
    """Return the local folder that a user's path names: a plain path, or a URI of scheme ``file``.

    A URI is percent-decoded. OptionError for another scheme or host, an empty path, a NUL or a
    character that no file name has.
    """
    text = path if isinstance(path, str) else _path_text(path)
    _check_text(text)
    uri = _LOCAL_FILE.fullmatch(text)
    if uri is not None:
        return local_folder(unquote(uri[1], errors="surrogateescape")) if "%" in text else uri[1]
    scheme = _SCHEME.match(text)
    if scheme is None:
        return text
    if scheme[1].lower() == "file":
        raise OptionError(
            f"{text!r} is not a file URI of this machine: write file:///absolute/path"
        )
    raise OptionError(
        f"{text!r} has the scheme {scheme[1]!r}, and relstate stores data only in local folders: "
        f"give a path or a file: URI (a folder of this name is './{text}')"
    )


def _check_text(text: str) -> None:
    what = None
    if not text.strip():
        what = "is empty"
    elif "\0" in text:
        what = "contains a NUL character"
    else:
        try:
            os.fsencode(text)
        except UnicodeEncodeError as error:
            what = f"contains {error.object[error.start]!r}, which is not a character of file names"
    if what is not None:
        raise OptionError(f"the path of the store, {text!r}, {what}: name a local folder")


def _path_text(path: object) -> str:
    text = os.fspath(path) if isinstance(path, os.PathLike) else None
    if not isinstance(text, str):
        raise OptionError(f"the path of the store is {path!r}: give a string or a pathlib.Path")
    return text
