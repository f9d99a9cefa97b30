"""From a SELECT to the plan of a view.

Read in this order: planner (what is asked for), query (SELECT and UNION), from_clause and chain
(FROM and WHERE), joining, group_by, ranking and rank_bound (the other clauses), scope and having
(what names mean), expressions and moment (what is refused), builder (puts operators over each
other), analysis (what Spark says) and simplify, in the end.

Promises: what cannot be kept incrementally is refused, with the reason.
Does not know: how a plan is run.
"""
