"""Runs the statements that create, alter and drop tables.

Promises: a statement that changes anything is one epoch.
Does not know: Spark, how statements are written, or what a property means (properties).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import TypeAlias

from relstate.connector.views.renaming import follow_rename
from relstate.storage import Store, errors

from .create_table import CreateTable, CreateTableLike
from .ddl import (
    AddColumns,
    AddConstraint,
    AddExpectation,
    AllowNull,
    Alteration,
    CommentColumn,
    CommentTable,
    DropColumns,
    DropConstraint,
    DropTable,
    RecoverQuarantine,
    RenameColumn,
    RenameTable,
    SetDefault,
    SetProperties,
    WidenColumn,
)
from .index_ddl import CreateIndex, DropIndex, IndexStatement, ShowIndexes
from .properties import altered_property, creation_arguments, split_properties
from .recovery import recover_quarantine
from .result import Result, epoch_result
from .show_run import show_indexes

_RECOVERY = "epoch BIGINT NOT NULL, recovered BIGINT NOT NULL, remaining BIGINT NOT NULL"

DdlStatement: TypeAlias = (
    CreateTable | CreateTableLike | DropTable | IndexStatement | Alteration | RecoverQuarantine
)


class DdlRunner:
    """The tables of a store, as statements see them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(self, statement: DdlStatement) -> Result:
        """Run a statement and return its rows. Errors are the store's."""
        match statement:
            case CreateTable():
                return epoch_result(self._create(statement))
            case CreateTableLike(name, source, if_not_exists, or_replace):
                self._store.create_table_like(
                    name, source, if_not_exists=if_not_exists, or_replace=or_replace
                )
                return epoch_result(self._store.known_epoch)
            case DropTable(name, if_exists, cascade):
                self._store.drop_table(name, if_exists=if_exists, cascade=cascade)
                return epoch_result(self._store.known_epoch)
            case CreateIndex(name, table, columns, include, unique, if_not_exists):
                epoch = self._store.create_index(
                    table,
                    name,
                    columns,
                    include=include,
                    unique=unique,
                    if_not_exists=if_not_exists,
                )
                return epoch_result(epoch)
            case DropIndex(name, table, if_exists):
                return epoch_result(self._store.drop_index(table, name, if_exists=if_exists))
            case ShowIndexes(table):
                return show_indexes(self._store, table)
            case RecoverQuarantine(table, where):
                recovery = recover_quarantine(self._store, table, where)
                return Result([astuple(recovery)], _RECOVERY)
            case _:
                return epoch_result(self._alter(statement))

    def _create(self, statement: CreateTable) -> int:
        self._store.create_table(
            statement.name,
            statement.columns,
            primary_key=statement.primary_key,
            distribution_key=statement.distribution_key,
            if_not_exists=statement.if_not_exists,
            or_replace=statement.or_replace,
            constraints=statement.constraints,
            expectations=statement.expectations,
            defaults=statement.defaults,
            generated=statement.generated,
            **creation_arguments(statement.properties),
        )
        return self._store.known_epoch

    def _alter(self, statement: Alteration) -> int:
        match statement:
            case AddColumns(table, columns):
                return self._store.add_columns(table, columns)
            case DropColumns(table, names):
                return self._store.drop_columns(table, *names)
            case RenameColumn(table, name, new):
                return self._store.rename_column(table, name, new)
            case RenameTable(table, new):
                return self._store.view_catalog.rename_table(table, new, follow_rename)
            case WidenColumn(table, name, data_type):
                return self._store.widen_column(table, name, data_type)
            case AllowNull(table, name):
                return self._store.allow_null(table, name)
            case AddConstraint(table, name, expression):
                return self._store.add_constraint(table, name, expression)
            case AddExpectation(table, name, expression, on_violation):
                return self._store.add_expectation(table, name, expression, on_violation)
            case DropConstraint(table, name, if_exists):
                return self._store.drop_constraint(table, name, if_exists=if_exists)
            case SetDefault(table, name, expression):
                return self._store.set_default(table, name, expression)
            case CommentColumn(table, name, comment):
                return self._store.comment_column(table, name, comment)
            case CommentTable(table, comment):
                return self._store.set_user_properties(table, {"comment": comment})
            case SetProperties(table, properties):
                return self._set_properties(table, properties)

    def _set_properties(self, table: str, properties: Mapping[str, str | None]) -> int:
        own, users = split_properties(properties)
        if own and users:
            raise errors.OptionError(
                f"{min(own)!r} and {min(users)!r} are altered by two statements: the first is a "
                "property of relstate, the other one of yours"
            )
        if users:
            return self._store.set_user_properties(table, users)
        name, value = altered_property(own)
        if name == "ttl":
            return self._store.set_ttl(table, value)
        if name == "transaction_retention":
            return self._store.set_transaction_retention(table, value)
        return self._store.set_encoding(table, "row" if value is None else value)
