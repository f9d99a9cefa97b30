"""The condition of a read: a SQL expression over a table's columns, in Spark's dialect.

Read in this order: predicate (what a read holds); operand and binder (a tree to a condition over a
table's columns); constant (what Spark makes of constants); domain and valueset (values as numbers
in an order, and sets of them); condition (what a row must fulfil, evaluated over batches),
condition_json, pattern (LIKE); keyspace (a condition on the key as ranges of keys).

Promises: a condition keeps exactly the rows that Spark's WHERE keeps, in its ANSI mode; what is not
certain to is refused. Does not know: files, segments, Spark. Only operand and binder know sqlglot,
and they are loaded when a text is parsed: a bound condition travels without it.
"""
