"""Documents: rows whose parts are entries of their own, so that a part changes without its row.

Read in this order: part (what an entry says of a part), shape (which parts values of a type have),
visible (which entries count), rowfold (entries to rows).

Promises: no Python loop over rows, entries or parts.
Does not know: files, or epochs.
"""
