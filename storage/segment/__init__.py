"""Segments: immutable, sorted LMDB files.

Read in this order: key (what an entry is), longkey (keys beyond LMDB's limit), block (many entries
as Arrow has them), segment (one file), page (its leaf pages in bulk) and search (many prefixes of
keys in them), registry (all files that a process has open), writer (entries to files).

Promises: a segment is verified before its first use. Does not know: tables, or which version wins.
"""
