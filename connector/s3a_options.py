"""The settings of Hadoop's S3A in a session, as options of a store.

Promises: only settings that are there; nothing for stores that are not on S3.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

from relstate.connector.storage_options import is_storage_option, storage_options
from relstate.storage import Location

_PREFIX = "spark.hadoop.fs.s3a."
_NAMES = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint.region": "region",
}


_OTHERS = ("endpoint", "connection.ssl.enabled", "path.style.access")


def s3a_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return those of a session's settings that `with_s3a_settings` reads."""
    return {
        name: value
        for name, value in settings.items()
        if name.startswith(_PREFIX) and name.endswith((*_NAMES, *_OTHERS))
    }


def with_s3a_settings(
    options: Mapping[str, str], settings: Mapping[str, str]
) -> MutableMapping[str, str]:
    """Return the options of a read or write, with those of the store by S3A's settings."""
    completed: MutableMapping[str, str] = CaseInsensitiveDict(options)
    path = options.get("path", "")
    if not any(map(is_storage_option, options)) and _is_on_s3(path):
        completed.update(storage_options(Location(path, _options_of(settings, path))))
    return completed


def s3a_options(
    spark: SparkSession, path: str, storage_options: Mapping[str, str] | None
) -> Mapping[str, str] | None:
    """Return the options of the store at ``path``: those given, else those of S3A's settings."""
    if storage_options is not None or not _is_on_s3(path):
        return storage_options
    settings = {
        name: value for name in _names(path) if (value := spark.conf.get(name, None)) is not None
    }
    return _options_of(settings, path) or None


def _is_on_s3(path: str) -> bool:
    return str(path).lower().startswith(("s3:", "s3a:"))


def _prefixes(path: str) -> list[str]:
    """Return the prefixes of settings: that of the path's bucket before that of all."""
    bucket = str(path).split("/")[2:3]
    return [*(f"{_PREFIX}bucket.{name}." for name in bucket), _PREFIX]


def _names(path: str) -> list[str]:
    return [prefix + name for prefix in _prefixes(path) for name in (*_NAMES, *_OTHERS)]


def _options_of(settings: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the options of the store at ``path`` by settings of S3A."""
    prefixes = _prefixes(path)
    values = {name: _setting(settings, prefixes, name) for name in (*_NAMES, *_OTHERS)}
    options = {option: value for name, option in _NAMES.items() if (value := values[name])}
    endpoint = values["endpoint"]
    if endpoint:
        scheme = "http" if values["connection.ssl.enabled"] == "false" else "https"
        options["endpoint"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
        if options["endpoint"].startswith("http://"):
            options["allow_http"] = "true"
    if values["path.style.access"] == "false":
        options["virtual_hosted_style_request"] = "true"
    return options


def _setting(settings: Mapping[str, str], prefixes: Sequence[str], name: str) -> str | None:
    """Return a setting of S3A, that of the bucket before that of all."""
    values = (settings.get(prefix + name) for prefix in prefixes)
    return next((value for value in values if value is not None), None)
