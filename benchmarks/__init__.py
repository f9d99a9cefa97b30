"""Benchmarks: named workloads, each beside a baseline that is measured in the same run.

    python -m benchmarks [workload ...] [--quick] [--rows N] [--strict]

A figure is worth what stands beside it: both sides run in turns on the same machine, and the
medians are compared. What a baseline does is told with every figure.
"""
