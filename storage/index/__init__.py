"""Secondary indexes: what an index stores, how writes keep it, how reads use it.

An index is an internal table: its primary key is the indexed columns and then the table's primary
key, its other columns are the included ones. A commit that changes rows of a table adds the changes
of its indexes' entries, so an index equals its table at every epoch.

layout: rows of a table as entries of an index. index_maintenance: what a commit adds. tableindex:
what a read finds. indexcheck: whether the entries are those of the rows.
"""
