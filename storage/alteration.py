"""How the definition of a table becomes its next one; no row is rewritten.

Promises: columns keep their ids, new columns get ids that were never used. Rows written under an
earlier schema are read as if they had been written under the new one: added columns are NULL,
widened columns hold the same values. The schemas that rows may still be encoded under stay with
the definition.
Does not know: the log, rows, or who else alters the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .errors import SchemaError
from .feed.columns import check_not_of_feed
from .generated_columns import check_not_generated, check_unread_by_generated
from .log.table_definition import TableDefinition
from .schema import types as t
from .schema.arrow import arrow_schema
from .schema.constraint import ON_VIOLATION, CheckConstraint, OnViolation
from .schema.properties import EncodingName
from .schema.schema import MAX_VERSION, Column, TableSchema

_WHOLE_DIGITS = {t.TinyInt: 3, t.SmallInt: 5, t.Int: 10, t.BigInt: 19}
_WIDER: dict[type[t.DataType], tuple[type[t.DataType], ...]] = {
    t.TinyInt: (t.SmallInt, t.Int, t.BigInt, t.Float, t.Double),
    t.SmallInt: (t.Int, t.BigInt, t.Float, t.Double),
    t.Int: (t.BigInt, t.Double),
    t.Float: (t.Double,),
}


def with_columns(definition: TableDefinition, fields: Sequence[t.Field]) -> TableDefinition:
    """Return the definition with more columns, after its own.

    SchemaError for a name that is taken, or for NOT NULL: the rows of the table have no value.
    """
    schema = definition.schema
    check_not_of_feed(field.name for field in fields)
    used_names = {column.name.lower() for column in schema.columns}
    for field in fields:
        if not field.name:
            raise SchemaError("a column needs a name")
        if field.name.lower() in used_names:
            raise SchemaError(
                f"the column {field.name!r} cannot be added: the table has a column of this name"
            )
        if not field.nullable:
            raise SchemaError(
                f"the column {field.name!r} cannot be added as NOT NULL: the rows of the table "
                "have no value for it; add it without NOT NULL"
            )
        used_names.add(field.name.lower())
    if not fields:
        raise SchemaError("the list of columns to add is empty; name at least one")
    arrow_schema(fields)
    added = (
        Column.of(number, field) for number, field in enumerate(fields, start=schema.next_column_id)
    )
    return _evolved(definition, (*schema.columns, *added), schema.next_column_id + len(fields))


def without_columns(definition: TableDefinition, names: Sequence[str]) -> TableDefinition:
    """Return the definition without some columns.

    SchemaError for a column of the primary key, the version column, all columns or none.
    """
    schema = definition.schema
    dropped = {_own_column(schema, name).id for name in names}
    for name in names:
        _check_not_version(definition, schema.column(name), "dropped")
        _check_unconstrained(definition, schema.column(name), "dropped")
    for key in schema.key_columns:
        if key.id in dropped:
            raise SchemaError(
                f"the column {key.name!r} is part of the primary key and cannot be dropped"
            )
    if not dropped:
        raise SchemaError("the list of columns to drop is empty; name at least one")
    if dropped.issuperset(column.id for column in schema.visible_columns):
        raise SchemaError("all columns would be dropped; a table needs at least one")
    remaining = tuple(column for column in schema.columns if column.id not in dropped)
    return _evolved(definition, remaining)


def with_column_renamed(definition: TableDefinition, name: str, new: str) -> TableDefinition:
    """Return the definition with another name for a column. SchemaError if it cannot have it."""
    t.check_text("the name of a column", new)
    check_not_of_feed((new,))
    column = _own_column(definition.schema, name)
    used_names = {
        sibling.name.lower() for sibling in definition.schema.columns if sibling.id != column.id
    }
    _check_unconstrained(definition, column, "renamed")
    if not new:
        raise SchemaError(f"the column {column.name!r} needs a name")
    if new.lower() in used_names:
        raise SchemaError(f"the column {column.name!r} cannot be named {new!r}: the name is taken")
    return _evolved(definition, _with_column(definition, replace(column, name=new)))


def with_column_widened(
    definition: TableDefinition, name: str, data_type: t.DataType
) -> TableDefinition:
    """Return the definition with a wider type for a column: see `is_wider`.

    SchemaError for a type that is not wider, a column of the primary key, whose bytes are sorted,
    or the version column, whose bytes are in the header of every row.
    """
    schema = definition.schema
    column = _own_column(schema, name)
    check_not_generated(column, "have another type")
    _check_not_version(definition, column, "widened")
    _check_unconstrained(definition, column, "widened")
    if column.id in {key.column_id for key in schema.primary_key}:
        raise SchemaError(
            f"the column {column.name!r} is part of the primary key, so its type cannot change"
        )
    if not is_wider(column.type, data_type):
        raise SchemaError(
            f"the column {column.name!r} is {column.type} and cannot become {data_type}: the new "
            "type must hold each of its values unchanged"
        )
    return _evolved(definition, _with_column(definition, replace(column, type=data_type)))


def with_merged_columns(definition: TableDefinition, fields: Sequence[t.Field]) -> TableDefinition:
    """Return the definition with the columns of ``fields`` that it lacks, and its own as wide.

    One version of the schema later; the definition itself if it has all. Columns of the primary key
    are not widened. Errors as of `with_columns` and `with_column_widened`.
    """
    schema = definition.schema
    own = {column.name.lower(): column for column in schema.columns}
    keys = {key.column_id for key in schema.primary_key}
    new = [field for field in fields if field.name.lower() not in own]
    merged = definition
    if new:
        nullable = [t.Field(field.name, field.type, True, field.comment) for field in new]
        merged = with_columns(merged, nullable)
    for field in fields:
        column = own.get(field.name.lower())
        if column is not None and column.id not in keys and is_wider(column.type, field.type):
            merged = with_column_widened(merged, column.name, field.type)
    if merged is definition:
        return definition
    return replace(
        merged,
        schema=replace(merged.schema, version=schema.version + 1),
        older_schemas=(*definition.older_schemas, schema),
    )


def with_column_nullable(definition: TableDefinition, name: str) -> TableDefinition:
    """Return the definition with a column that may be NULL.

    SchemaError for a column of the primary key, or the version column.
    """
    schema = definition.schema
    column = _own_column(schema, name)
    _check_not_version(definition, column, "made nullable")
    if column.id in {key.column_id for key in schema.primary_key}:
        raise SchemaError(
            f"the column {column.name!r} is part of the primary key, so it cannot be made nullable"
        )
    if column.nullable:
        return definition
    return _evolved(definition, _with_column(definition, replace(column, nullable=True)))


def with_columns_of(definition: TableDefinition, schema: TableSchema) -> TableDefinition | None:
    """Return the definition with the columns of another schema; None if its key is another one.

    A column that has its name and type keeps its id, all others get new ones.
    """
    own = definition.schema
    if _key_of(own) != _key_of(schema):
        return None
    ids = {_shape_of(column): column.id for column in own.columns}
    columns: list[Column] = []
    next_id = own.next_column_id
    for column in schema.columns:
        column_id = ids.get(_shape_of(column), next_id)
        next_id += column_id == next_id
        columns.append(replace(column, id=column_id))
    if [column.as_stored for column in columns] == [column.as_stored for column in own.columns]:
        return replace(definition, schema=replace(own, columns=tuple(columns)))
    return _evolved(definition, tuple(columns), next_id)


def _key_of(schema: TableSchema) -> object:
    """Return what two schemas share whose keys have the same bytes in the same vnodes."""
    parts = [
        (_shape_of(column), key.descending, key.nulls_first)
        for column, key in zip(schema.key_columns, schema.primary_key, strict=True)
    ]
    return parts, [column.name for column in schema.distribution_columns]


def _shape_of(column: Column) -> tuple[str, t.DataType, bool, bool]:
    return column.name, column.type, column.nullable, column.hidden


def with_constraint(
    definition: TableDefinition,
    name: str,
    expression: str,
    on_violation: OnViolation = "refuse",
) -> TableDefinition:
    """Return the definition with one more constraint: see `new_constraint`."""
    constraint = new_constraint(definition, name, expression, on_violation)
    return replace(definition, constraints=(*definition.constraints, constraint))


def new_constraint(
    definition: TableDefinition, name: str, expression: str, on_violation: OnViolation = "refuse"
) -> CheckConstraint:
    """Return a constraint of a table.

    SchemaError for a name that is taken or not text, or a table whose rows are written in parts;
    UnsupportedExpressionError for a condition that cannot be evaluated exactly,
    SchemaMismatchError for an unknown column.
    """
    t.check_text("the name of a constraint", name)
    schema, properties = definition.schema, definition.properties
    if not name or any(item.name.lower() == name.lower() for item in definition.constraints):
        raise SchemaError(
            f"the table {definition.name!r} has a constraint {name!r} already: take another name"
        )
    if properties.encoding != "row":
        raise SchemaError(
            f"the table {definition.name!r} is a document table, which cannot have constraints, "
            "because parts of a row are written without the others: use encoding = 'row'"
        )
    if on_violation not in ON_VIOLATION:
        raise SchemaError(
            f"the constraint {name!r}: on_violation is {on_violation!r}; it must be "
            "'count', 'drop' or 'fail'"
        )
    from .expression.check_expression import CheckExpression

    _, condition, names = CheckExpression.parse(expression, schema)
    columns = [schema.column(column) for column in names]
    keys = {key.column_id for key in schema.primary_key}
    if properties.merge == "partial" and sum(column.id not in keys for column in columns) > 1:
        raise SchemaError(
            f"({expression}): a row of {definition.name!r} comes in parts (merge partial), "
            "so a condition may read one column besides the primary key: write several constraints"
        )
    ids = tuple(column.id for column in columns)
    return CheckConstraint(name, expression, condition, ids, on_violation)


def without_constraint(
    definition: TableDefinition, name: str, *, if_exists: bool
) -> TableDefinition:
    """Return the definition without a CHECK constraint. SchemaError unless it is there."""
    remaining = tuple(
        constraint
        for constraint in definition.constraints
        if constraint.name.lower() != str(name).lower()
    )
    if len(remaining) == len(definition.constraints) and not if_exists:
        constraint_names = (
            ", ".join(constraint.name for constraint in definition.constraints) or "none"
        )
        raise SchemaError(
            f"the table {definition.name!r} has no constraint {name!r}; its constraints are: "
            f"{constraint_names}"
        )
    return replace(definition, constraints=remaining)


def with_comment(definition: TableDefinition, name: str, comment: str | None) -> TableDefinition:
    """Return the definition with another comment on a column, None for no comment.

    The schema keeps its version: a comment changes no row. SchemaError for an unknown column, or a
    comment that is not text.
    """
    if comment is not None:
        t.check_text("the comment of a column", comment)
    schema = definition.schema
    column = replace(_own_column(schema, name), comment=comment)
    return replace(definition, schema=replace(schema, columns=_with_column(definition, column)))


def with_default(definition: TableDefinition, name: str, expression: str | None) -> TableDefinition:
    """Return the definition with another DEFAULT of a column, None for NULL.

    The schema keeps its version: rows that are stored stay as they are. SchemaError for an unknown
    column, one of the key, or a table that merges partially; errors as of `read_default`.
    """
    # The parser of SQL is loaded by those who need it.
    from .expression.default_value import read_default

    schema = definition.schema
    column = _own_column(schema, name)
    check_not_generated(column, "have a DEFAULT")
    default = None if expression is None else read_default(expression, column, schema)
    if default is not None and column in schema.key_columns:
        raise SchemaError(
            f"the column {column.name!r} is part of the primary key, so it cannot have a DEFAULT: "
            "every row gives its value"
        )
    if default is not None and definition.properties.merge == "partial":
        raise SchemaError(
            f"the table {definition.name!r} has merge 'partial': a row that is written without "
            f"the column {column.name!r} keeps its value, so there is no DEFAULT"
        )
    columns = _with_column(definition, replace(column, default=default))
    return replace(definition, schema=replace(schema, columns=columns))


def with_user_properties(
    definition: TableDefinition, changes: Mapping[str, str | None]
) -> TableDefinition:
    """Return the definition with some of its user's properties changed; None removes one.

    As in Spark, the comment of the table is the property ``comment``. SchemaError for a key or a
    value that is not text.
    """
    properties = {"comment": definition.comment, **dict(definition.user_properties), **changes}
    comment, user_properties = descriptions_of(properties)
    return replace(definition, comment=comment, user_properties=user_properties)


def descriptions_of(
    properties: Mapping[str, str | None],
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """Return (comment, the other properties, sorted, without those that are None).

    The comment is the property ``comment``. SchemaError for a key or a value that is not text.
    """
    for key, value in properties.items():
        t.check_text("the key of a property", key)
        if value is not None:
            t.check_text(f"the property {key!r}", value)
    texts = {key: text for key, text in properties.items() if text is not None}
    comment = texts.pop("comment", None)
    return comment, tuple(sorted(texts.items()))


def with_ttl(definition: TableDefinition, ttl: int | None) -> TableDefinition:
    """Return the definition with another TTL of rows written from then on, in seconds."""
    properties = replace(definition.properties, ttl=ttl)
    properties.check([key.column_id for key in definition.schema.primary_key])
    return replace(definition, properties=properties)


def with_transaction_retention(
    definition: TableDefinition, retention: int | None
) -> TableDefinition:
    """Return the definition with another time after which writers are forgotten, in seconds."""
    properties = replace(definition.properties, transaction_retention=retention)
    properties.check([key.column_id for key in definition.schema.primary_key])
    return replace(definition, properties=properties)


def with_encoding(definition: TableDefinition, encoding: EncodingName) -> TableDefinition:
    """Return the definition with another encoding of rows written from then on. SchemaError."""
    if definition.indexes and encoding == "document":
        raise SchemaError(
            f"table {definition.name!r} has indexes, which document tables do not have: drop them"
        )
    if definition.constraints and encoding == "document":
        raise SchemaError(
            f"table {definition.name!r} has constraints, which document tables do not have: drop "
            "them"
        )
    if definition.schema.generated_columns and encoding == "document":
        raise SchemaError(
            f"table {definition.name!r} has generated columns, which document tables do not have: "
            "drop them"
        )
    properties = definition.properties.with_encoding(encoding)
    properties.check([key.column_id for key in definition.schema.primary_key])
    return replace(definition, properties=properties)


def is_wider(old: t.DataType, new: t.DataType) -> bool:
    """Return whether a type is another than ``old`` and holds all its values unchanged.

    Integers of more bytes, DECIMALs of more digits on both sides, FLOAT to DOUBLE, integers to
    DECIMAL, FLOAT or DOUBLE where that is exact.
    """
    if isinstance(new, t.Decimal):
        return old != new and _fits(old, new)
    return type(new) in _WIDER.get(type(old), ())


def _fits(old: t.DataType, new: t.Decimal) -> bool:
    if isinstance(old, t.Decimal):
        whole, scale = old.precision - old.scale, old.scale
    elif type(old) in _WHOLE_DIGITS:
        whole, scale = _WHOLE_DIGITS[type(old)], 0
    else:
        return False
    return new.scale >= scale and new.precision - new.scale >= whole


def _own_column(schema: TableSchema, name: str) -> Column:
    """Return the column of a name. SchemaError if there is none, or it is the hidden row id."""
    column = schema.column(name)
    if column == schema.row_id:
        raise SchemaError(
            f"the column {column.name!r} is the hidden row id of a table without a primary key; "
            "it cannot be altered"
        )
    return column


def _with_column(definition: TableDefinition, changed: Column) -> tuple[Column, ...]:
    columns = definition.schema.columns
    return tuple(changed if column.id == changed.id else column for column in columns)


def _evolved(
    definition: TableDefinition, columns: tuple[Column, ...], next_column_id: int | None = None
) -> TableDefinition:
    schema = definition.schema
    if schema.version == MAX_VERSION:
        raise SchemaError(
            f"the table has had {MAX_VERSION} schemas, which is the maximum; copy it to a new table"
        )
    evolved = replace(
        schema,
        version=schema.version + 1,
        columns=columns,
        next_column_id=schema.next_column_id if next_column_id is None else next_column_id,
    )
    older = (*definition.older_schemas, schema)
    return replace(definition, schema=evolved, older_schemas=older)


def _check_unconstrained(definition: TableDefinition, column: Column, action: str) -> None:
    check_unread_by_generated(definition, column, action)
    for constraint in definition.constraints:
        if column.id in constraint.columns:
            raise SchemaError(
                f"the column {column.name!r} cannot be {action}: the constraint "
                f"{constraint.name!r}, CHECK ({constraint.expression}), reads it; drop that first"
            )


def _check_not_version(definition: TableDefinition, column: Column, action: str) -> None:
    if column.id in definition.properties.version_columns:
        raise SchemaError(
            f"the column {column.name!r} is the version column of table {definition.name}, whose "
            f"bytes are in the header of every row; it cannot be {action}"
        )
