"""Reduced cases of views that `test_random_queries` found to be wrong once, by their cause."""

from __future__ import annotations

from support.view_cases import Case

FOUND: dict[str, Case] = {}
