"""A property that is computed at its first use, without a lock.

``functools.cached_property`` has one lock for all instances of a class in Python 3.11, held while
the value is computed: a child that is forked meanwhile waits for it for ever.

Promises: a value that is there is read as fast as any attribute. Threads that ask for it first at
the same time may each compute it; all get the value that was there first.
Does not know: what the value is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

_T = TypeVar("_T")


class cached_property(Generic[_T]):  # noqa: N801 - it is used as `property` is
    """Decorates a method without arguments of a class with a ``__dict__``, frozen or not."""

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | _T:
        # It has no __set__: what is in the instance's __dict__ is found before it.
        if instance is None:
            return self
        value: _T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value
