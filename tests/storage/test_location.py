"""Where a store is: which paths and URIs name a folder, and which are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from relstate.storage.environment_choice import environment_of
from relstate.storage.errors import OptionError


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/data/shop", "/data/shop"),
        (Path("/data/shop"), "/data/shop"),
        ("/data/a%20b", "/data/a%20b"),
        ("/data/s3://x", "/data/s3:/x"),
        ("./s3:x", f"{os.getcwd()}/s3:x"),
        ("./1x://shop", f"{os.getcwd()}/1x:/shop"),
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
        ("s3://", "scheme 's3'"),
        ("1x://shop", "scheme '1x'"),
        ("s://shop", "scheme 's'"),
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


@pytest.mark.parametrize(
    "path",
    [
        "s3://key:hush/hush@bucket/shop",
        "S3A://key:hush@bucket",
        "s3://hush@bucket/shop",
        "az://account:hush/shop",
        "gs://bucket?key=hush",
        "https://key:hush@host/shop",
        "file://key:hush@host/shop",
        "1x://key:hush@host/shop",
    ],
)
def test_credentials_in_a_path_are_refused_and_not_repeated(path: str) -> None:
    """Neither by a message nor by what it was raised from."""
    for options in (None, {"region": "x"}):
        with pytest.raises(OptionError) as caught:
            environment_of(path, options)
        assert "hush" not in str(caught.value)
        assert "key" not in str(caught.value)
        assert caught.value.__cause__ is None
