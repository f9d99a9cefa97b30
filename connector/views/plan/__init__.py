"""What a view computes: a tree of operators over the store's tables, as values.

Promises: plans are values; they travel, compare and become JSON. None of this imports pyspark
but for the planner, which asks Spark for the types of expressions.
"""
