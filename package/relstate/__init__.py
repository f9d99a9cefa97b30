"""relstate: keyed relational tables for Apache Spark, with nothing to run but Spark.

    store = relstate.create("/data/shop")
    store.create_table("orders", "order_id BIGINT, amount DECIMAL(12,2)", primary_key=["order_id"])
    store.table("orders").get(42)

    db = relstate.connect(spark, "/data/shop")
    db.sql("SELECT sum(amount) FROM orders").show()

The package exports every error of `relstate.storage.errors`.

Importing it loads no other module: names are resolved when they are first used. So a process that
serves lookups never loads Spark, and Spark, which imports the package to list its data sources,
does not wait.
"""

import typing

if typing.TYPE_CHECKING:
    # A name imported as itself is exported, for every type checker.
    from relstate.connector.sql import Database as Database
    from relstate.connector.sql import ViewStream as ViewStream
    from relstate.connector.sql import ViewStreamListener as ViewStreamListener
    from relstate.connector.sql import connect as connect
    from relstate.connector.sql import debezium as debezium
    from relstate.connector.sql import use_s3a_settings as use_s3a_settings
    from relstate.storage import Row as Row
    from relstate.storage import Store as Store
    from relstate.storage.errors import *  # noqa: F403

    create = Store.create
    def open(
        path: str,
        *,
        storage_options: typing.Mapping[str, str] | None = None,
        max_staleness: int | str = 0,
    ) -> Store:
        """Open the store at ``path``: see `Store.open`."""

    __version__: str
    __all__: list[str]

else:
    _MODULES = {
        "Database": "relstate.connector.sql",
        "Row": "relstate.storage",
        "Store": "relstate.storage",
        "ViewStream": "relstate.connector.sql",
        "ViewStreamListener": "relstate.connector.sql",
        "connect": "relstate.connector.sql",
        "debezium": "relstate.connector.sql",
        "use_s3a_settings": "relstate.connector.sql",
    }
    _ERRORS = "relstate.storage.errors"

    def __getattr__(name: str) -> object:
        value = globals()[name] = _look_up(name)
        return value

    def __dir__() -> list[str]:
        return __getattr__("__all__")

    def _look_up(name: str) -> object:
        from importlib import import_module

        if name in _MODULES:
            _check_spark(name)
            return getattr(import_module(_MODULES[name]), name)
        if name in ("create", "open"):
            return getattr(import_module("relstate.storage").Store, name)
        if name == "__version__":
            return _version()
        if name == "__all__":
            return _public_names(import_module(_ERRORS).__all__)
        # Only errors end so. Another name must not load what it cannot be in.
        if name.endswith("Error") and name in import_module(_ERRORS).__all__:
            return getattr(import_module(_ERRORS), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def _check_spark(name: str) -> None:
        """SessionError, before it is imported, for what an installed Spark has no modules for."""
        from importlib import import_module

        if _MODULES[name] == "relstate.connector.sql":
            import_module("relstate.connector.spark.version").check_pyspark()

    def _public_names(errors: list[str]) -> list[str]:
        """Return the names of classes, then of functions, each sorted."""
        names = [*_MODULES, *errors, "__version__", "create", "open"]
        return sorted(names, key=lambda name: (not name[0].isupper(), name))

    def _version() -> str:
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("relstate")
        except PackageNotFoundError:
            return "0+not-installed"
