"""Tables: what is visible of the segments at an epoch, and what is about to be written.

Read in this order: encoding, keyencoding and rowencoding (a table's rows as entries), merge and
scan (entries to visible rows), pruning (a read of some rows), prefixes (all rows that share a key
prefix), lookup and pointreader (rows by their keys), table_entries and storagetable (what the files
of one table hold at one epoch, and its rows), appendonly and tablewriter; memtable and statetable
(a table as an executor uses it), chunk (changes as Arrow batches), table and record (what users
hold).

Promises: a read sees one epoch. Does not know: Spark.
"""
