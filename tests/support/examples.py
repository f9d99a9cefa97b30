"""How many random examples a law is tried on: few in the fast tiers, many in `make test-slow`.

The profile of hypothesis decides it. tests/conftest.py loads QUICK, `make test-slow` chooses
THOROUGH. A law that says no number of its own is tried on as many examples as the profile says.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings

Seeds = Callable[[int], range]
# Per cent of the number that a law asks for.
QUICK, THOROUGH = 30, 300


def examples(number: int) -> int:
    """Return how many examples this run tries of a law that asks for `number` of them."""
    return max(1, number * settings().max_examples // 100)
