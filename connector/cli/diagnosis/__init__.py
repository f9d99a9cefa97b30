"""Why Spark may fail to see relstate, or a store may fail to work: what `relstate doctor` finds.

Read in this order: diagnosis (all of it), finding (what there is to say), requirement, interpreter
and discovery (what Spark's Pythons see), spark (Spark and Java), store.

Promises: nothing is changed but for one file that is created in the store and removed; every look
has a time limit; none of them needs Spark to run.
"""
