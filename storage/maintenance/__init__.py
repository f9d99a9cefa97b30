"""Maintenance of a store over years: compaction and vacuum.

Read in this order: components (which files hide which, and what may be merged), policy (what to
merge), rewrite (one merge, executed), compaction (from the choice of files to a commit, also in
parts that run in other processes), vacuum (the removal of files that no epoch in retention needs).

Promises: a reader sees the same rows before and after, at every epoch in retention; a crash leaves
unused files and nothing else.
Does not know: Spark.
"""
