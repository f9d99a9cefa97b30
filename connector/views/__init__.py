"""Materialized views: what they compute (plan), how they are maintained (executor), and when.

Read in this order: planner (from a SELECT to a plan), plan (a tree of operators), operators (which
executors maintain them), viewplan (fragments and state tables), executor; then a refresh from the
top: views (what users call), refresh (one round over all views), runner and job (one view's Spark
job), frame (the job as a DataFrame) and evaluation (what Spark recomputes in it), scans, task and
wire (what its tasks do), stored_plans (the catalog's plans, checked), backfill (populating a new
view), creation and stream. lineage says which view reads what, sessions in which session Spark
computes; explanation and rebuild show views and check them.

Promises: after every epoch a view equals its SELECT over its inputs as of the epoch it reflects.
"""
