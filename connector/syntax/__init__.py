"""The text of statements: its words, and where in it a query names tables.

Does not know: what any statement means, stores, Spark.
"""
