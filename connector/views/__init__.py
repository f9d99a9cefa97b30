"""Materialized views: what they compute (plan), how they keep it (executor), and when.

Promises: after every epoch a view equals its SELECT over its inputs as of the epoch it reflects.
"""
