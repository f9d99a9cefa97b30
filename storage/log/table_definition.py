"""The definition of a table in the catalog: its columns, properties and indexes.

Promises: `from_json(to_json())` gives an equal definition. Does not know: rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import IndexNotFoundError, SchemaMismatchError
from ..schema.constraint import CheckConstraint
from ..schema.index import IndexDefinition
from ..schema.properties import PLAIN, TableProperties
from ..schema.schema import TableSchema
from .names import lower_name

# On disk: 32 bits of every key are the table's id. Never raise it.
MAX_TABLE_ID = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table in the catalog; its id is allocated once and never used again.

    ``older_schemas`` are those that its rows may still be encoded under, the oldest first.
    ``user_properties``: keys and values that mean nothing to relstate, sorted by the keys.
    ``indexes`` are its secondary indexes, in the order in which they were created; ``constraints``
    its CHECK constraints.
    """

    table_id: int
    name: str
    schema: TableSchema
    created_epoch: int
    properties: TableProperties = PLAIN
    older_schemas: tuple[TableSchema, ...] = ()
    comment: str | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    indexes: tuple[IndexDefinition, ...] = ()
    constraints: tuple[CheckConstraint, ...] = ()

    def index(self, name: str) -> IndexDefinition:
        """Return an index by its name, whatever its case.

        IndexNotFoundError if there is none, TableNameError for what is not text.
        """
        for index in self.indexes:
            if index.name.lower() == lower_name(name):
                return index
        index_names = ", ".join(index.name for index in self.indexes) or "none"
        raise IndexNotFoundError(
            f"table {self.name!r} has no index {name!r}; its indexes are: {index_names}"
        )

    @property
    def version_names(self) -> tuple[str, ...]:
        """The names of the version columns, in their order."""
        columns = self.schema.version_columns(self.properties.version_columns)
        return tuple(column.name for column in columns)

    def check_versions(self, names: Iterable[str]) -> None:
        """SchemaMismatchError if rows or deletes with columns of these names lack their version.

        It would be the lowest, so that they would change no row that has one.
        """
        if not self.properties.is_versioned:
            return
        columns = list(names)
        given = {name.lower() for name in columns}
        for name in self.version_names:
            if name.lower() not in given and self.schema.column(name).default is None:
                raise SchemaMismatchError(
                    f"table {self.name}: the version column {name!r} is missing; found "
                    f"{', '.join(columns) or 'no columns'}. Without a version a row, or a delete, "
                    "is older than every row that has one and would change nothing: give the "
                    "column (NULL is the lowest version), or give it a DEFAULT"
                )

    def to_json(self) -> dict[str, Any]:
        """Return the definition as JSON values. On disk: never change a name."""
        # Only there where they were given.
        comment = {} if self.comment is None else {"comment": self.comment}
        user_properties = [list(item) for item in self.user_properties]
        labels = comment | ({"user_properties": user_properties} if user_properties else {})
        indexes = {"indexes": [index.to_json() for index in self.indexes]} if self.indexes else {}
        constraints = [constraint.to_json() for constraint in self.constraints]
        return (
            labels
            | indexes
            | ({"constraints": constraints} if constraints else {})
            | {
                "table_id": self.table_id,
                "name": self.name,
                "schema": self.schema.to_json(),
                "created_epoch": self.created_epoch,
                "properties": self.properties.to_json(),
                "older_schemas": [schema.to_json() for schema in self.older_schemas],
            }
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableDefinition:
        """Return the definition from the result of `to_json`."""
        return cls(
            value["table_id"],
            value["name"],
            TableSchema.from_json(value["schema"]),
            value["created_epoch"],
            TableProperties.from_json(value["properties"]),
            tuple(map(TableSchema.from_json, value["older_schemas"])),
            value.get("comment"),
            tuple((key, text) for key, text in value.get("user_properties", ())),
            tuple(map(IndexDefinition.from_json, value.get("indexes", ()))),
            tuple(map(CheckConstraint.from_json, value.get("constraints", ()))),
        )


def check_definition(definition: TableDefinition) -> None:
    """Raise ValueError for a table that nobody can create."""
    if not 1 <= definition.table_id <= MAX_TABLE_ID:
        raise ValueError(f"the table id {definition.table_id}")
    for schema in (definition.schema, *definition.older_schemas):
        schema.check()
    column_ids = {column.id for column in definition.schema.columns}
    for column in definition.schema.generated_columns:
        if column.generated is not None and not column_ids.issuperset(column.generated.columns):
            raise ValueError(f"a column is computed of columns that are not there: {column!r:.200}")
    for index in definition.indexes:
        if not index.columns or not column_ids.issuperset((*index.columns, *index.included)):
            raise ValueError(f"an index of columns that are not there: {index!r:.200}")
    for constraint in definition.constraints:
        if not column_ids.issuperset(constraint.columns):
            raise ValueError(f"a constraint of columns that are not there: {constraint!r:.200}")
