"""What a view computes: a tree of operators over the store's tables, as values.

Read in this order: node; stateless, generate, aggregate, join, topn, window, recompute and
materialize (the operators).

Promises: plans are values; they travel, compare and become JSON. None of this imports pyspark.
Does not know: SQL (planner).
"""
