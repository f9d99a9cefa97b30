"""The data of every page about a store, as values: for the web pages, the command line and metrics.

Read in this order: activity (commits over time), tables, lag and views (what is maintained, and how
late it is), store (the first page), metrics.

Promises: works without Spark; changes nothing; what a page costs does not grow with the rows of a
store, unless its docstring says so.
Does not know: how figures are shown.
"""

__all__: list[str] = []
