"""Aggregates near the data: what a task adds up of the rows that it reads.

Read value (what is computed of each row), measure (what is added up, and in which types), then
partial (an aggregate as a value that travels), then adding (from batches of rows to partial rows).
"""
