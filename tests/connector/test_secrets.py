"""The law that credentials of a store's bucket show nowhere."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import relstate
from relstate.connector.sink.write_plan import plan_batch
from relstate.connector.source.read import plan_reader, plan_schema
from relstate.connector.storage_options import location, storage_options
from relstate.storage import Location, Store, errors
from support import secret_life
from support.drivers import Driver
from support.object_stores import SECRET, s3_options, s3_server

KEY = "key-id-of-the-tests"
TOKEN = "token-of-the-tests"
SECRETS = (SECRET, KEY, TOKEN)

_LOG_EVERYTHING = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n%ex
"""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the endpoint of a server with the bucket ``shop``."""
    with s3_server(tmp_path_factory.mktemp("moto")) as endpoint:
        yield endpoint


def options_of(endpoint: str, folder: Path) -> dict[str, str]:
    """Return storage options with each kind of credential."""
    secrets = {"access_key_id": KEY, "session_token": TOKEN}
    return s3_options(endpoint, folder / "cache", **secrets)


def settings_of(endpoint: str, folder: Path) -> dict[str, str]:
    """Return the settings of a driver that logs all it can, and S3A's for a bucket."""
    (folder / "events").mkdir()
    (folder / "log4j2.properties").write_text(_LOG_EVERYTHING)
    s3a = {
        "access.key": KEY,
        "secret.key": SECRET,
        "session.token": TOKEN,
        "endpoint": endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
    }
    return {
        **{f"spark.hadoop.fs.s3a.bucket.shop.{name}": value for name, value in s3a.items()},
        "spark.master": "local[2]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={folder}/log4j2.properties",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }


def files_with_secrets(*folders: Path) -> list[Path]:
    """Return the files in folders that contain a credential."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if any(text.encode() in path.read_bytes() for text in SECRETS)]


@pytest.mark.timeout(300)  # a Spark of its own
def test_credentials_show_nowhere(endpoint: str, tmp_path: Path) -> None:
    """Reads, writes, streams and db, by options and by S3A's settings of a session: in no text,
    no log, event, checkpoint or object of the bucket, also where tasks and options fail.
    """
    options = options_of(endpoint, tmp_path)
    (tmp_path / "checkpoints").mkdir()
    relstate.create("s3://shop/settings", storage_options=options).close()
    with Driver(tmp_path / "driver", settings_of(endpoint, tmp_path)) as driver:
        driver.run(secret_life.log_everything)
        folder = str(tmp_path / "checkpoints")
        texts = driver.run(secret_life.live_by_settings, "s3a://shop/settings", folder)
        texts += driver.run(secret_life.live, "s3a://shop/options", options, folder)
    assert [text for text in texts if any(secret in text for secret in SECRETS)] == []
    assert "INFO" in (tmp_path / "driver" / "log").read_text()
    assert files_with_secrets(tmp_path / "checkpoints") == []
    assert files_with_secrets(tmp_path / "driver") == []
    assert files_with_secrets(tmp_path / "events") == []
    with Store.open("s3://shop/settings", storage_options=options) as store:
        objects = [f"{folder}/{name}" for folder in ("_log", "_archive", "segments")
                   for name in store.environment.list(folder)]  # fmt: skip
        contents = [store.environment.read(name) for name in objects]
    assert len(contents) > 10
    assert not any(secret.encode() in content for secret in SECRETS for content in contents)


def test_tasks_get_credentials_once_and_return_none(tmp_path: Path) -> None:
    """They travel in the location of a plan; no partition and no message of a task has them."""
    options = {"access_key_id": KEY, "cache_folder": str(tmp_path)}
    path = Location("memory://secrets/shop", options)
    with Store.create(path) as store:
        store.create_table("t", "id BIGINT, v STRING", primary_key=["id"])
        store.write("t", [{"id": key, "v": "x"} for key in range(10)])
        texts = {"path": path, "table": "t", **storage_options(path)}
        reader = plan_reader(texts, schema := plan_schema(texts))
        writer = plan_batch(texts, schema, overwrite=False)
        message = writer.write(batch for batch in store.table("t").scan())
    assert pickle.dumps(reader).count(KEY.encode()) == 1
    assert pickle.dumps(writer).count(KEY.encode()) == 1
    assert KEY.encode() not in pickle.dumps([*reader.partitions(), message])
    assert KEY not in repr([reader, writer, message, store, path])


def test_options_of_credentials_have_names_that_spark_hides() -> None:
    """Those that relstate gives to Spark; a user may write them without ``secret``, too."""
    options = {"account_key": "a", "sas_key": "b", "account_name": "c", "proxy_url": "d"}
    given = storage_options(Location("az://shop/x", options))
    assert sorted(given) == [
        "storage.account_name",
        "storage.secret.account_key",
        "storage.secret.proxy_url",
        "storage.secret.sas_key",
    ]
    assert location({**given, "path": "az://shop/x"}).storage_options == options
    plain = {f"storage.{name}": value for name, value in options.items()}
    assert location({**plain, "path": "az://shop/x"}).storage_options == options


def test_a_table_of_the_catalog_keeps_no_credentials(tmp_path: Path) -> None:
    """Its options are in its schema, which everybody can read."""
    path = Location("memory://secrets/catalog", {"cache_folder": str(tmp_path)})
    with Store.create(path) as store:
        store.create_table("t", "id BIGINT", primary_key=["id"])
    given = {"option.table": "t", "option.storage.cache_folder": str(tmp_path)}
    properties = {"provider": "relstate", "path": str(path), **given}
    assert plan_schema(properties).names == ["id"]
    for name in ("storage.secret.account_key", "storage.secret_access_key"):
        with pytest.raises(errors.OptionError, match=name) as caught:
            plan_schema({**properties, f"option.{name}": "hush"})
        assert "hush" not in str(caught.value)


def test_a_path_with_credentials_is_not_repeated() -> None:
    """By an error that names all problems of the options."""
    with pytest.raises(errors.OptionError, match="2 problems") as caught:
        plan_schema({"path": f"s3://{KEY}:{SECRET}@shop/x", "table": "t", "tabel": "t"})
    assert not any(secret in str(caught.value) for secret in SECRETS)
