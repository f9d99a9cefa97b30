"""From a SELECT to the plan of a view.

Read in this order: query (SELECT and UNION, clause by clause), clauses (what they say), from_clause
and join_conditions (FROM, WHERE and joins), group_by and rank_bound (aggregates and ROW_NUMBER);
builder (puts operators over each other), scope (what names mean), expressions (what is refused),
analysis (the store's tables, and what Spark says), and simplify, in the end.

Promises: what cannot be maintained incrementally is refused, with the reason.
Does not know: how a plan is run.
"""
