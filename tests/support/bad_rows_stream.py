"""A driver program that streams rows into a table, sets bad ones aside, and is to be killed.

    python -m support.bad_rows_stream STORE FOLDER [end]

It reads the files of FOLDER/in one by one, in several tasks, until it is killed. With ``end`` it
ends by itself when it has read what there is.
"""

from __future__ import annotations

import sys

from support.unlucky_views import session

COLUMNS = "id BIGINT, value BIGINT"


def _main(store: str, folder: str, *, ends: bool) -> None:
    spark = session()
    rows = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(f"{folder}/in")
    writer = rows.repartition(2).writeStream.format("relstate")
    writer = writer.options(table="t", badRows="quarantine")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    if ends:
        writer = writer.trigger(availableNow=True)
    query = writer.start(store)
    sys.stdout.write("alive\n")
    sys.stdout.flush()
    query.awaitTermination()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], ends=sys.argv[3:] == ["end"])
