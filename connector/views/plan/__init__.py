"""What a view computes: a tree of operators over the store's tables, as values, and how one is
made of a SELECT.

Read in this order: node, aggregate, join, topn and materialize (the operators), state (their
tables), form (as JSON), described (as text); then planner, which asks analysis (Spark) and walks a
query: query, source, chain, joining, aggregation, ranking, union, and simplify in the end. dialect
reads and writes expressions, scope finds what names mean, function says what is refused, bound
takes in conditions on a rank.

Promises: plans are values; they travel, compare and become JSON. None of that imports pyspark: only
analysis and planner do, and what plans a query with them.
"""
