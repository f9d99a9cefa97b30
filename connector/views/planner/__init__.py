"""From a SELECT to the plan of a view.

Read in this order: view (the whole plan), query (SELECT, clause by clause) and set_operations,
clauses (what they say), from_clause, join_chain and join_conditions (FROM, WHERE and joins),
subqueries, planned_subquery, correlation and subquery_joins, memberships (in expressions),
outer_domain (those that read outer columns anywhere), group_by, grouping_sets, recompute and calls
(aggregates), windows and rank_bound (windows and ROW_NUMBER), generators and constants, clustering
(CLUSTER BY); builder (adds operators to a plan), scope and having (what names mean), expressions
(what is refused), analysis (the store's tables, and Spark's analysis of queries), simplify (the
last step).

Promises: what cannot be maintained incrementally is refused, with the reason.
Does not know: how a plan is run.
"""
