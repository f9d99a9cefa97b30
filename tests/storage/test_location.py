"""Where a store is: which paths and URIs name a folder, and which are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from relstate.storage.environments import environment_of
from relstate.storage.errors import OptionError


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/data/shop", "/data/shop"),
        (Path("/data/shop"), "/data/shop"),
        ("/data/a%20b", "/data/a%20b"),
        ("/data/s3://x", "/data/s3:/x"),
        ("./s3:x", f"{os.getcwd()}/s3:x"),
        ("c:x", f"{os.getcwd()}/c:x"),
        ("file:/data/shop", "/data/shop"),
        ("file:///data/a%20b%25c", "/data/a b%c"),
        ("FILE://LocalHost/data/shop", "/data/shop"),
    ],
)
def test_a_path_or_a_file_uri_names_a_local_folder(path: str | Path, folder: str) -> None:
    """A URI of the scheme file is percent-decoded, a plain path is taken as it is."""
    assert environment_of(path).location("") == folder


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("s3://bucket/a/../b", "'..'"),
        ("hdfs:/shop", "scheme 'hdfs'"),
        ("s3a:shop", "scheme 's3a'"),
        ("file://host/shop", "file:///"),
        ("file:shop", "file:///"),
        ("", "empty"),
        ("/data/a\0b", "NUL"),
        ("file:///a%00b", "NUL"),
        ("/data/a\ud800b", r"contains '\\ud800', which is not a character of file names"),
        (5, "5"),
        (b"/data", "/data"),
    ],
)
def test_no_other_path_becomes_a_folder(path: str, words: str) -> None:
    """Another scheme, host or type is refused by name, before anything is made."""
    with pytest.raises(OptionError, match=words):
        environment_of(path)
