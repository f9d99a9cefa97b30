"""What a table's rows are: types, columns, and batches that conform to them.

Read in this order: types and ddl (Spark's types without Spark), type_json (as they are stored),
arrow (as Arrow has them), schema (a table's columns and keys), batch and cast (making rows fit).

Promises: values in, values out. Does not know: how rows are encoded, or where they lie.
"""
