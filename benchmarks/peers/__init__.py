"""The same work by relstate and by other systems, on one machine, in turns.

    python -m benchmarks.peers [peer ...] [--rows N] [--turns N] [--json FILE]

Each system runs in a process and an environment of its own, with the settings that its own
documents advise, and is driven by one harness over lines of JSON. Nothing here imports a system but
the one file in `systems` that drives it.
"""
