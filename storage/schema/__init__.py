"""What a table's rows are: types, columns, and batches that conform to them.

Read in this order: types and ddl (Spark's types without Spark), type_json (their stored form),
arrow (their Arrow types), schema (a table's columns and keys), properties (how its rows merge and
expire), batch and cast (making rows fit).

Promises: pure functions of values. Does not know: how rows are encoded, or where they are stored.
"""
