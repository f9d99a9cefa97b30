"""The condition of a read: a SQL expression over a table's columns, in Spark's dialect.

Read in this order: predicate (what a read holds); syntax, literal, refusal and binder (text to a
condition over a table's columns); constant, coercion and widening (what Spark makes of values of
different types), zone (local times); domain and valueset (values as places in an order); condition
(what a row must fulfil, evaluated over batches), like (patterns); keyspace (a condition on the key
as ranges of keys).

Promises: a condition keeps exactly the rows that Spark's WHERE keeps, in its ANSI mode; what is not
certain to is refused. Does not know: files, segments, Spark. Only syntax, literal, refusal and
binder know sqlglot, and they are loaded when a text is parsed: what was parsed travels without it.
"""
