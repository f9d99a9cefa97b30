"""Rows to bytes and back: whole batches and, for lookups, single rows.

Read in this order: ragged (byte strings as numpy and Arrow see them); for keys memcomparable, which
joins key_field (a column), key_part and sortable, with point_key for a single key; for
values row, which joins row_body, fixed_field, variable_field and nested_field, with point_row,
point_body, point_value and point_nested for a single row.

Promises: values in, values out; the order of keys is the order of the values.
Does not know: tables, versions or files.
"""
