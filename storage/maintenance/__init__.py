"""Keeping a store fast and small for years: compaction and vacuum.

Read in this order: layout (which files lie over which, and what may be merged), policy (what is to
be merged), rewrite (files to fewer files), compaction (from a plan to a commit, with the races),
vacuum (files that no epoch in retention needs).

Promises: no reader sees another row, at whatever epoch in retention; a crash leaves files behind
and nothing else.
Does not know: Spark, or where a job that compacts runs.
"""
