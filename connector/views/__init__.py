"""Materialized views: what they compute (plan), how they keep it (executor), and when.

Read in this order: plan (a SELECT as a tree of operators), operators (which of them are executors,
in which fragments), executor (they themselves), wire, message, task, source and job (fragments as
one Spark job), refresh (changes taken in, one commit), backfill (what was there before), creation,
views and stream (what users ask for), lineage (which view reads what); explanation and rebuild tell
of views and prove them; sessions are where Spark computes.

Promises: after every epoch a view equals its SELECT over its inputs as of the epoch it reflects.
"""
