"""The settings of Hadoop's S3A that a store on S3 takes from a session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from relstate.connector.s3a_options import s3a_options, with_s3a_settings


def session(**settings: str) -> Any:
    """Return a session that has settings, named as S3A's with ``_`` for ``.``."""
    values = {f"spark.hadoop.fs.s3a.{name.replace('_', '.')}": settings[name] for name in settings}
    return SimpleNamespace(conf=SimpleNamespace(get=values.get))


def test_settings_become_options() -> None:
    """Under obstore's names; an endpoint without a scheme has TLS unless that is off."""
    spark = session(access_key="a", secret_key="b", endpoint="host:1", path_style_access="false")

    assert s3a_options(spark, "s3a://bucket/shop", None) == {
        "access_key_id": "a",
        "secret_access_key": "b",
        "endpoint": "https://host:1",
        "virtual_hosted_style_request": "true",
    }
    plain = session(endpoint="host:1", connection_ssl_enabled="false")
    assert s3a_options(plain, "s3://bucket/shop", None) == {
        "endpoint": "http://host:1",
        "allow_http": "true",
    }


def test_a_setting_of_the_bucket_comes_first() -> None:
    """That of another bucket is none; what the bucket does not set is that of all."""
    spark = session(
        access_key="a",
        secret_key="b",
        bucket_shop_access_key="c",
        bucket_shop_session_token="d",
        bucket_shop_endpoint_region="e",
        bucket_other_secret_key="f",
    )

    assert s3a_options(spark, "s3a://shop/x/y", None) == {
        "access_key_id": "c",
        "secret_access_key": "b",
        "session_token": "d",
        "region": "e",
    }


def test_what_is_given_and_what_is_elsewhere_is_left_alone() -> None:
    """Options of the caller, other kinds of stores, and a session without settings."""
    spark = session(access_key="a")

    assert s3a_options(spark, "s3://bucket/shop", {"region": "x"}) == {"region": "x"}
    assert s3a_options(spark, "/data/shop", None) is None
    assert s3a_options(session(), "s3://bucket/shop", None) is None


def test_options_of_a_read_are_completed_by_settings_of_its_bucket() -> None:
    """Only on S3, and only where the read has no options of a store."""
    prefix = "spark.hadoop.fs.s3a."
    settings = {f"{prefix}access.key": "a", f"{prefix}bucket.shop.secret.key": "b"}
    options = {"path": "s3a://shop/x", "table": "t"}

    assert dict(with_s3a_settings(options, settings)) == {
        **options,
        "storage.secret.access_key_id": "a",
        "storage.secret.secret_access_key": "b",
    }
    for untouched in (
        {"path": "/data/shop", "table": "t"},
        {"table": "t"},
        {"path": "s3://shop/x", "storage.region": "r"},
    ):
        assert dict(with_s3a_settings(untouched, settings)) == untouched
