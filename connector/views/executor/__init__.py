"""Executors: the stateful operators of a view, over Arrow chunks and state tables.

Promises: no module here imports pyspark. An executor is a function of its chunk and of the contents
of its state tables: two runs over equal inputs write and return equal rows.
"""
