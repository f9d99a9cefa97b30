"""Options of Delta Lake that relstate does not have, each with what to do instead.

Does not know: the options that it has.
"""

from __future__ import annotations

_FEED = (
    "a stream of a table is its change feed, option readChangeFeed, which has updates and deletes "
    "as rows: filter them by _change_type"
)
_EPOCHS = "write maxEpochsPerTrigger, the number of epochs that a micro-batch has at most"
_COMPACTION = "commits merge small files; db.maintain() compacts a table"

DELTA_OPTIONS = {
    "ignorechanges": _FEED,
    "ignoredeletes": _FEED,
    "skipchangecommits": _FEED,
    "maxfilespertrigger": _EPOCHS,
    "maxbytespertrigger": _EPOCHS,
    "readchangedata": "write readChangeFeed",
    "failondataloss": (
        "epochs that were vacuumed are an error: start with a new checkpoint, from the whole table"
    ),
    "replacewhere": (
        "write db.sql('MERGE INTO t USING … ON … WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED "
        "THEN INSERT * WHEN NOT MATCHED BY SOURCE AND condition THEN DELETE')"
    ),
    "overwriteschema": (
        "an overwrite keeps the columns and keys of the table: write db.sql('CREATE OR REPLACE "
        "TABLE t (PRIMARY KEY (id)) AS SELECT …')"
    ),
    "partitionoverwritemode": (
        "a table has no partitions: mode append replaces the rows that have the keys, mode "
        "overwrite all rows"
    ),
    "usermetadata": "a commit has no text of its own: write it into a table",
    "datachange": f"leave it out: {_COMPACTION}",
    "optimizewrite": f"leave it out: {_COMPACTION}",
    "autocompact": f"leave it out: {_COMPACTION}",
}
"""By the name in lower case, as Spark hands it over."""
