"""Files of rows that users bring or take away: CSV, JSON, Parquet, Arrow.

Read in this order: file_format, row_file (how they are opened, and the paths of what is read and
written), values (text and JSON to the types of a table, and back), reading, writing, loading (the
commit of what was read).

Promises: what `writing` writes, `reading` reads back as the same rows. Works without Spark, except
for columns of VARIANT as text.
Does not know: options of commands, progress bars.
"""

__all__: list[str] = []
