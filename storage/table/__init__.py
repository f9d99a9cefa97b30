"""Tables: what is seen of the segments at an epoch, and what is about to be written.

Read in this order: encoding (a table's rows as entries), merge, piece, scan and keyorder (entries
to what is visible), pruning, spread and filter (a read of some rows), prefixes (rows beneath many
prefixes of keys), storagetable (one table at one epoch), appendonly and tablewriter; memtable and
statetable (an executor's view), chunk (changes as Arrow has them), table and record (what users
hold).

Promises: a read sees one epoch. Does not know: Spark.
"""
