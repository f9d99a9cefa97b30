"""Benchmarks: named workloads, each beside a baseline that is measured in the same run.

    python -m benchmarks [workload ...] [--quick] [--rows N] [--strict]

A figure means something only beside a baseline: both run in turns on the same machine, and the
medians are compared. Every figure says what its baseline does.
"""
