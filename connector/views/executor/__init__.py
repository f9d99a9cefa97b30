"""Executors: the stateful operators of a view, over Arrow chunks and state tables.

Promises: none of this imports pyspark; an executor is a function of its chunk and of what its
state tables hold, and two runs over equal ones write and give equal rows.
"""
