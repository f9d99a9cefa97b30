"""The location of a store: what a path or URI that a user gives names.

    /data/shop  file:///data/shop                   a local folder
    s3://bucket/shop  az://container/shop  gs://bucket/shop     a prefix in an object store
    memory://name/shop                              a prefix in the memory of this process

A location is text, so that it goes wherever a path goes: into a pickled task, a message, an option.
The options of an object store, which may hold credentials, are beside the text and travel with it
when it is pickled; they are in no message, no `repr` and nothing that is made of the text.

Promises: anything else is refused in words, before a file is touched; no message repeats what may
be credentials in a URI.
Does not know: whether there is a store, or which options an object store has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Self

from .errors import OptionError

# The names under which users know an object store, and the one that a location has.
_OBJECT_SCHEMES = {
    "s3": "s3", "s3a": "s3", "az": "az", "azure": "az", "gs": "gs", "gcs": "gs", "memory": "memory",
}  # fmt: skip
_OBJECT_URI = re.compile(
    rf"({'|'.join(_OBJECT_SCHEMES)})://([^/?#]+)((?:/.*)?)", re.DOTALL | re.IGNORECASE
)
# What looks like a URI: also one of no scheme that there is, for a typing error makes no folder.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+(?=:)|[A-Za-z0-9+.-]+(?=://)):")
# What a URI may have of credentials: before an @, which a secret's own / may precede, and after ?.
_CREDENTIALS = re.compile(r"(?<=://).*@|[?#].*", re.DOTALL)
# Names of options whose values are credentials, or may contain them.
_SECRET = re.compile(r"(access|account|customer|master|sas)_?key|secret|token|proxy")
_LOCAL_FILE = re.compile(r"(?i:file):(?://(?i:localhost)?)?(/(?:[^/].*)?)", re.DOTALL)


class Location(str):
    """The text of a path or URI, with the options of the object store that it is in."""

    storage_options: Mapping[str, str]

    def __new__(cls, text: str, storage_options: Mapping[str, str] | None = None) -> Self:
        """``text``: a local folder, or the normal form of an object store's URI."""
        location = super().__new__(cls, text)
        location.storage_options = dict(storage_options or {})
        return location

    def __reduce__(self) -> tuple[object, tuple[str, dict[str, str]]]:
        """Pickle with the options: a task opens the store on another machine."""
        return type(self), (str(self), dict(self.storage_options))

    @property
    def is_object_store(self) -> bool:
        """Whether it is a prefix in an object store rather than a local folder."""
        return _OBJECT_URI.fullmatch(self) is not None

    @property
    def endpoint(self) -> str:
        """What the options say of the server, to tell locations of one name apart."""
        return ":".join(
            value for name, value in sorted(self.storage_options.items()) if "endpoint" in name
        )

    def parts(self) -> tuple[str, str, str]:
        """Return the scheme, the bucket and the prefix in it, of an object store's location."""
        uri = _OBJECT_URI.fullmatch(self)
        if uri is None:
            raise AssertionError(f"{self!r} is not in an object store")
        return uri[1].lower(), uri[2], uri[3].strip("/")


def location_of(
    path: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> Location:
    """Return the location that a user's path names, with the options given or its own.

    A URI of scheme ``file`` is percent-decoded; those of object stores are taken as they are.
    OptionError for another scheme or host, an empty path, a NUL, a character that no file name
    has, and options for a local folder.
    """
    text = path if isinstance(path, str) else _path_text(path)
    options = _checked_options(storage_options)
    if options is None:
        options = dict(path.storage_options) if isinstance(path, Location) else {}
    _check_text(text)
    uri = _OBJECT_URI.fullmatch(text)
    if uri is None:
        folder = _local_folder(text)
        if options:
            raise OptionError(
                f"{text!r} is a local folder, and storage_options are for object stores"
            )
        return Location(folder)
    _check_bucket(uri[1].lower(), uri[2])
    names = [name for name in uri[3].split("/") if name]
    if {".", ".."} & {*names}:
        raise OptionError(
            f"{_shown(text)} has a part '.' or '..', which an object store takes as a name"
        )
    prefix = "".join(f"/{name}" for name in names)
    return Location(f"{_OBJECT_SCHEMES[uri[1].lower()]}://{uri[2]}{prefix}", options)


def may_be_secret(name: str) -> bool:
    """Return whether an option of an object store may be a credential, by its name."""
    return _SECRET.search(name.lower()) is not None


def _check_bucket(scheme: str, bucket: str) -> None:
    if "@" in bucket or ":" in bucket:
        # Without the bucket, of which a part may be a secret.
        raise OptionError(
            f"the bucket's name in this {scheme}:// address contains '@' or ':', which no bucket's "
            "does: an address holds no credentials, give them as storage_options or by the "
            "environment's variables; another server is the option 'endpoint'"
        )


def _shown(text: str) -> str:
    """Return a URI for a message, without what may be credentials."""
    return repr(_CREDENTIALS.sub("***", text))


def _checked_options(options: Mapping[str, str] | None) -> dict[str, str] | None:
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise OptionError("storage_options is a dict of names and values, such as {'region': ...}")
    return {_option_name(name): _option_text(name, value) for name, value in options.items()}


def _option_name(name: object) -> str:
    if not isinstance(name, str):
        raise OptionError(f"the name of a storage option is {name!r}: give a string")
    return name.lower()


def _option_text(name: str, value: object) -> str:
    if not isinstance(value, str | bool | int):
        # Without the value, which may be a secret.
        raise OptionError(f"storage option {name!r} has a value of type {type(value).__name__}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _local_folder(text: str) -> str:
    uri = _LOCAL_FILE.fullmatch(text)
    if uri is not None:
        if "%" not in text:
            return uri[1]
        from urllib.parse import unquote

        return location_of(unquote(uri[1], errors="surrogateescape"))
    scheme = _SCHEME.match(text)
    if scheme is None:
        return text
    if scheme[1].lower() == "file":
        raise OptionError(
            f"{_shown(text)} is not a file URI of this machine: write file:///absolute/path"
        )
    raise OptionError(
        f"{_shown(text)} has the scheme {scheme[1]!r}, and relstate stores data in local folders "
        "and at s3://bucket/prefix, az://container/prefix, gs://bucket/prefix: give one of them (a "
        "folder of this name needs './' before it)"
    )


def _check_text(text: str) -> None:
    problem = None
    if not text.strip():
        problem = "is empty"
    elif "\0" in text:
        problem = "contains a NUL character"
    else:
        try:
            os.fsencode(text)
        except UnicodeEncodeError as error:
            problem = (
                f"contains {error.object[error.start]!r}, which is not a character of file names"
            )
    if problem is not None:
        raise OptionError(f"the path of the store, {text!r}, {problem}: name a folder")


def _path_text(path: object) -> str:
    text = os.fspath(path) if isinstance(path, os.PathLike) else None
    if not isinstance(text, str):
        raise OptionError(f"the path of the store is {path!r}: give a string or a pathlib.Path")
    return text
