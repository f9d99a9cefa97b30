"""The log and the compaction of large stores on an object store, simulated without their data.

    python -m benchmarks.simulation [sizes] [reads] [checkpoints] [writers] [year]

The code of the log, of commits and of the choice of merges is the real one. The environment is not:
it keeps the files of the log in memory and only the sizes of segments, and its clock advances by
what the requests would take, and by what this process computes. What is printed is the table of
docs/scaling.md of that name; without names all five.
"""
