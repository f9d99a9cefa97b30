"""Documents: rows whose parts are entries of their own, so that a part changes without its row.

Read in this order: part (what an entry says of a part), shape (which parts values of a type have),
patch and entries (parts to entries), visible (which entries count), documents, merging and rowfold
(entries to rows), window (which rows need that), remains (what a merge of files leaves of them),
resolver (merges of whole rows), documentencoding (all of it for one table).

Promises: no Python loop over rows, entries or parts.
Does not know: files, or epochs.
"""
