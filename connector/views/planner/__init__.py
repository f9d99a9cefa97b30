"""From a SELECT to the plan of a view.

Read in this order: query (SELECT, clause by clause) and union, clauses (what they say), from_clause
and join_conditions (FROM, WHERE and joins), group_by, recompute and calls (aggregates), windows and
rank_bound (windows and ROW_NUMBER); builder (adds operators to a plan), scope (what names mean),
expressions (what is refused), analysis (the store's tables, and Spark's analysis of queries),
simplify (the last step).

Promises: what cannot be maintained incrementally is refused, with the reason.
Does not know: how a plan is run.
"""
