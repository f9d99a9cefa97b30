"""Boolean combinations of conditions, taken apart into terms of which at most one is true.

A row is in the result of ``a OR b`` as long as ``a`` is true, or ``a`` is not and ``b`` is. Each
term is a conjunction, which filters one after the other can maintain, and no row passes two of them
at any time. So the rows of all terms together are those of the combination, each once.

Does not know: what the conditions are, or how rows are filtered by them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

Atom = TypeVar("Atom", bound=Hashable)
Term: TypeAlias = tuple[tuple[Atom, bool], ...]
"""Conditions, each with whether it is true or not (false, or NULL)."""


@dataclass(frozen=True, slots=True)
class Combination(Generic[Atom]):
    """Conditions and combinations of which any has to be true, or all."""

    is_any: bool
    parts: tuple[Atom | Combination[Atom], ...]


def disjoint_terms(formula: Atom | Combination[Atom]) -> Iterator[Term[Atom]]:
    """Yield terms: at most one of them is true, and one is exactly where the formula is true.

    What comes first in the formula is decided first, so the terms are few where that decides most.
    """
    if not isinstance(formula, Combination):
        yield ((formula, True),)
        return
    atom = _first_atom(formula)
    for is_true in (True, False):
        remaining = _assigned(formula, atom, is_true)
        if remaining is True:
            yield ((atom, is_true),)
        elif remaining is not False:
            for term in disjoint_terms(remaining):
                yield ((atom, is_true), *term)


def _first_atom(formula: Atom | Combination[Atom]) -> Atom:
    while isinstance(formula, Combination):
        formula = formula.parts[0]
    return formula


def _assigned(
    formula: Atom | Combination[Atom], atom: Atom, is_true: bool
) -> Atom | Combination[Atom] | bool:
    """Return what remains of a formula if a condition is known; True or False if nothing does."""
    if not isinstance(formula, Combination):
        return is_true if formula == atom else formula
    parts = [_assigned(part, atom, is_true) for part in formula.parts]
    if any(part is formula.is_any for part in parts):
        return formula.is_any
    open_parts = tuple(part for part in parts if not isinstance(part, bool))
    if not open_parts:
        return not formula.is_any
    return _combined(formula.is_any, open_parts)


def _combined(is_any: bool, parts: Sequence[Atom | Combination[Atom]]) -> Atom | Combination[Atom]:
    return parts[0] if len(parts) == 1 else Combination(is_any, tuple(parts))
