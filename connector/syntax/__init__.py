"""Reading SQL: the words of statements, the trees of expressions, and queries.

The dialect itself is `relstate.storage.syntax`. Does not know: what any statement means, stores,
Spark.
"""
