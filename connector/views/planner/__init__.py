"""From a SELECT to the plan of a view.

Read in this order: query (SELECT and UNION, clause by clause), clauses (what they say), from_clause
and join_conditions (FROM, WHERE and joins), group_by and rank_bound (aggregates and ROW_NUMBER);
builder (adds operators to a plan), scope (what names mean), expressions (what is refused), analysis
(the store's tables, and Spark's analysis of queries), simplify (the last step).

Promises: what cannot be maintained incrementally is refused, with the reason.
Does not know: how a plan is run.
"""
