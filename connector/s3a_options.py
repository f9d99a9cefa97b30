"""The settings of Hadoop's S3A in a session, as options of a store.

Promises: only settings that are there; nothing for stores that are not on S3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

_PREFIX = "spark.hadoop.fs.s3a."
_NAMES = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint.region": "region",
}


def s3a_options(
    spark: SparkSession, path: str, storage_options: Mapping[str, str] | None
) -> Mapping[str, str] | None:
    """Return the options of the store at ``path``: those given, else those of S3A's settings."""
    if storage_options is not None or not str(path).lower().startswith(("s3:", "s3a:")):
        return storage_options
    bucket = str(path).split("/")[2:3]
    prefixes = [*(f"{_PREFIX}bucket.{name}." for name in bucket), _PREFIX]
    settings = {name: _setting(spark, prefixes, name) for name in _NAMES}
    options = {_NAMES[name]: value for name, value in settings.items() if value}
    endpoint = _setting(spark, prefixes, "endpoint")
    has_tls = _setting(spark, prefixes, "connection.ssl.enabled") != "false"
    if endpoint:
        scheme = "https" if has_tls else "http"
        options["endpoint"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
        if options["endpoint"].startswith("http://"):
            options["allow_http"] = "true"
    if _setting(spark, prefixes, "path.style.access") == "false":
        options["virtual_hosted_style_request"] = "true"
    return options or None


def _setting(spark: SparkSession, prefixes: Sequence[str], name: str) -> str | None:
    """Return a setting of S3A, that of the bucket before that of all."""
    values = (spark.conf.get(prefix + name, None) for prefix in prefixes)
    return next((value for value in values if value is not None), None)
