"""The types of values that were read: what a class declares, whatever a file says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from relstate.storage.log.typecheck import check_types


@dataclass(frozen=True)
class Part:
    """A dataclass inside another."""

    size: int


@dataclass(frozen=True)
class Smaller(Part):
    """A part with a field of its own."""

    name: str = ""


@dataclass(frozen=True)
class Whole:
    """A field of each kind of type."""

    number: int = 1
    text: str = "a"
    data: bytes = b""
    flag: bool = True
    word: Literal["a", "b"] = "a"
    optional: int | None = None
    either: str | int | None = None
    numbers: tuple[int, ...] = (1, 2)
    pair: tuple[int, str] = (1, "a")
    pairs: tuple[tuple[int, int], ...] = ((1, 2),)
    part: Part = Part(1)
    parts: tuple[Part, ...] = (Part(1),)
    mapping: Mapping[str, int] = field(default_factory=dict)
    anything: Any = None


def whole(**values: Any) -> Whole:
    """Return a value that has its types but for some fields."""
    return Whole(**values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"mapping": {"a": 1}},
        {"number": 2**63 - 1},
        {"number": 1 - 2**63},
        {"optional": 5},
        {"either": 5},
        {"either": "x"},
        {"numbers": ()},
        {"pairs": ()},
        {"parts": ()},
        {"part": Smaller(1, "x")},
        {"anything": [{}]},
    ],
    ids=str,
)
def test_values_of_the_declared_types_pass(values: dict[str, Any]) -> None:
    """Also the ends of the range of numbers, empty tuples, and parts of a subclass."""
    check_types(whole(**values))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("number", True),
        ("number", 1.0),
        ("number", "1"),
        ("number", None),
        ("number", 2**63),
        ("number", -(2**63)),
        ("text", 1),
        ("text", None),
        ("data", "a"),
        ("flag", 1),
        ("word", "c"),
        ("word", None),
        ("optional", "1"),
        ("optional", False),
        ("optional", 2**63),
        ("either", b""),
        ("numbers", [1]),
        ("numbers", (1, True)),
        ("numbers", (1, 2**63)),
        ("numbers", (1, -(2**63))),
        ("numbers", ("a", "b")),
        ("numbers", None),
        ("pair", (1,)),
        ("pair", (1, "a", "a")),
        ("pair", ("a", 1)),
        ("pair", [1, "a"]),
        ("pairs", ((1, 2), (1,))),
        ("part", None),
        ("part", whole()),
        ("parts", (Part(1), None)),
        ("parts", [Part(1)]),
        ("mapping", {1: 1}),
        ("mapping", {"a": "a"}),
        ("mapping", [("a", 1)]),
    ],
    ids=str,
)
def test_any_other_value_is_refused(name: str, value: Any) -> None:
    """The error names the field, the class and the value."""
    with pytest.raises(ValueError, match=rf"^{name} of Whole is "):
        check_types(whole(**{name: value}))


def test_the_error_names_the_innermost_field() -> None:
    """Of a part of a part, too."""
    for parts in ({"part": Part("x")}, {"parts": (Part(1), Part("x"))}):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"^size of Part is 'x'"):
            check_types(whole(**parts))
    with pytest.raises(ValueError, match=r"^name of Smaller is 5"):
        check_types(whole(part=Smaller(1, 5)))  # type: ignore[arg-type]
