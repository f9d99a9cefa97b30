"""The connection to a bucket: a location and its options as a client of obstore.

    s3://bucket/prefix     S3 and servers that speak its protocol
    az://container/prefix  Azure Blob Storage
    gs://bucket/prefix     Google Cloud Storage
    memory://name/prefix   the memory of this process, for tests

Credentials come from the options, else from the environment's variables and the services of the
machine, as obstore finds them.

Promises: an option that is unknown is refused by its name; no message has a value of an option.
Does not know: stores of relstate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ..errors import OptionError
from ..extras import install_command
from ..location import Location

# The options of relstate's own, which no bucket knows.
OWN_OPTIONS = ("cache_folder", "cache_bytes", "max_retries", "retry_seconds")
# Options of obstore's HTTP client, none of which is a secret except that of the proxy.
_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "timeout",
        "user_agent",
    }
)
_RETRIES, _RETRY_SECONDS = 10, 60
_QUERY = re.compile(r"\?[^\s\"')]*")
# How obstore reports an answer; S3 throttles by 503, others by 429 also.
_THROTTLING = re.compile(r"status code: (?:429|503)\b")
# The answer to If-None-Match if there is an object; some servers give the first.
_FAILED_CONDITION = re.compile(r"status code: (?:304|412)\b")
# What is an answer to the request itself. Not: timeouts, conflicts, conditions, throttling.
_REFUSAL = re.compile(r"status code: 4(?!08|09|12|29)\d\d\b")
# The buckets of the scheme memory, for as long as the process lives.
_memory: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often a failed request is repeated, and for how many seconds."""

    count: int
    seconds: int


def connect(location: Location, limits: Repeats) -> Any:
    """Return obstore's client of the bucket that a location is in. OptionError.

    ``limits``: how obstore repeats a request that fails.
    """
    try:
        import obstore.store
    except ImportError:
        raise OptionError(
            f"{location}: object stores need the package obstore: {install_command('object-store')}"
        ) from None
    scheme, bucket, _ = location.parts()
    if scheme == "memory":
        return _memory.setdefault(bucket, obstore.store.MemoryStore())
    kinds = {
        "s3": obstore.store.S3Store,
        "az": obstore.store.AzureStore,
        "gs": obstore.store.GCSStore,
    }
    # Those of the HTTP client, too: given as `client_options` they would hide the environment's.
    config = {
        name: value for name, value in location.storage_options.items() if name not in OWN_OPTIONS
    }
    try:
        kind: Any = kinds[scheme]
        return kind(
            bucket,
            config=config,
            retry_config=_retry_config(limits),
        )
    except Exception as error:
        message = describe(error, location.storage_options)
        raise OptionError(f"{location}: the storage options are not usable: {message}") from None


def repeats(options: Mapping[str, str]) -> Repeats:
    """Return how often and how long the options let a failed request be repeated. OptionError."""
    return Repeats(
        int_option(options, "max_retries", _RETRIES),
        int_option(options, "retry_seconds", _RETRY_SECONDS),
    )


def _retry_config(limits: Repeats) -> dict[str, Any]:
    return {
        "max_retries": limits.count,
        "retry_timeout": timedelta(seconds=limits.seconds),
        "backoff": {
            "init_backoff": timedelta(milliseconds=50),
            "max_backoff": timedelta(seconds=5),
            "base": 2,
        },
    }


def int_option(options: Mapping[str, str], name: str, default: int) -> int:
    """Return an option that is a number of at least 0. OptionError for another text."""
    text = options.get(name, str(default))
    if not re.fullmatch("[0-9]{1,18}", text):
        raise OptionError(f"storage option {name!r} is {text!r}: give a number")
    return int(text)


def has_failed_condition(error: BaseException) -> bool:
    """Return whether an error of obstore is the answer that the condition of a put failed."""
    return _FAILED_CONDITION.search(str(error)) is not None


def is_throttling(error: BaseException) -> bool:
    """Return whether an error of obstore is the answer of a server that asks for less."""
    return _THROTTLING.search(str(error)) is not None


def is_refusal(error: BaseException) -> bool:
    """Return whether an error of obstore is an answer that a repeated request would get, too."""
    text = str(error)
    # S3's word for an upload that was too slow, with the status of a wrong request.
    return _REFUSAL.search(text) is not None and "RequestTimeout" not in text


def describe(error: BaseException, options: Mapping[str, str]) -> str:
    """Return what an error of obstore says, in one line and without secrets.

    A URL may carry a signature in its query, and a server may repeat what it was sent.
    """
    text = _QUERY.sub("", str(error).split("\n\n")[0].strip().replace("\n", " "))
    for name, value in options.items():
        if len(value) > 3 and name not in _SHOWN:
            text = text.replace(value, "***")
    return text[:500]


_SHOWN = frozenset({*OWN_OPTIONS, *_CLIENT_OPTIONS, "region", "aws_region", "endpoint"}) - {
    "proxy_url"
}
