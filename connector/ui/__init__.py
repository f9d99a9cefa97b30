"""Pages about a store: a report in one file, and a small local web application.

Read in this order: charts (geometry), pages (what each page shows), report, application.

Needs the extra ``relstate[ui]``: Jinja2 for the pages, Starlette and uvicorn for the application.
Promises: pages change nothing in a store; every text in them is escaped; nothing is loaded from
outside. Works without Spark.
"""

__all__: list[str] = []
