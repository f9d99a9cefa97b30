"""The change feed: what the commits of some epochs changed in a table.

Read in this order: columns (what a feed looks like), step (what commits did), plan (how a range of
epochs is found in the log, and what travels to tasks), reader (from segments to batches), and under
it source (entries as they stand), history (what was seen before and after each step), comparison
(whether two rows are the same). snapshot is a whole table as inserts.
"""
