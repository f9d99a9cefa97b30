"""A tree, which is sqlglot's, and the marks in its ``meta`` of what sqlglot does not keep."""

from __future__ import annotations

from typing import TypeAlias

from sqlglot import exp

Tree: TypeAlias = exp.Expr

IS_NOT = "is_not"
"""Marks, in the ``meta`` of a NOT, that it is written as ``x IS NOT y``."""
LITERAL = "literal"
"""Marks, in the ``meta`` of a cast, that it is a literal after this word: ``DATE'2026-01-01'``."""
SUFFIX = "suffix"
"""Marks, in the ``meta`` of a cast, that it is a number with this suffix, as ``1.5D``."""
UNSIGNED = "unsigned"
"""Marks, in the ``meta`` of the second operand of ``>>``, that the operator is ``>>>``."""
MAX_LEVEL = "max_level"
"""In the ``meta`` of a common table: the number after its ``MAX RECURSION LEVEL``."""
