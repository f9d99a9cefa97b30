"""Rows to bytes and back: whole batches and, for lookups, single rows.

Read in this order: ragged (byte strings as numpy and Arrow see them); for keys memcomparable, over
key_field (a column) and sortable (its numbers); for values row, over row_body (the layout),
value_field and nested_field, and for a single row point_value and point_nested.

Promises: values in, values out; the order of keys is the order of the values.
Does not know: tables, versions or files.
"""
