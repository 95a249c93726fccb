"""A dict that forks at once: its cost is that of the keys that either side changes afterwards.

The fork holds a layer of its own over the dict that it was forked from. Before that one changes a key, it hands the
old value down to each living fork that does not have the key in its layer. A dict without living forks is as quick as a
plain one to read, and a test of one attribute slower to write.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any, Generic, TypeVar
from weakref import ref

K = TypeVar("K")
V = TypeVar("V")

_NONE: Any = object()
"""Stands for "there is no such key", which None cannot: it may be a value."""


class ForkableDict(dict[K, V], Generic[K, V]):
    """Iterates in the order of insertion. Change it by ``[key] =``, ``del``, ``pop`` and ``writable`` only."""

    __slots__ = ("__weakref__", "_forks", "_private")

    def __init__(self) -> None:
        super().__init__()
        self._forks: list[ref[_Fork[K, V]]] = []
        """Weak references to the forks. Those that have died are dropped at the next write, and not by a callback: the
        garbage collector would call it in the middle of any other step."""
        self._private: set[K] | None = None
        """The keys whose values no other side holds; None: all of them, since nothing was forked, or no fork
        lived at the last write."""

    def fork(self) -> ForkableDict[K, V]:
        """The same keys and values. What either side puts or drops, the other does not see.

        Values are shared: take one by ``writable`` before changing it in place.
        """
        other = _Fork(self)
        self._forks = [*self._living(), ref(other)]
        self._private = set()
        return other

    def copied(self) -> ForkableDict[K, V]:
        """A dict by itself with the same keys and values: nothing is handed down to it, and it holds no layer below."""
        other: ForkableDict[K, V] = ForkableDict()
        dict.update(other, self.items())
        return other

    def writable(self, key: K, copied: Callable[[V], V]) -> V:
        """The value, for changing it in place: a copy is put in its place if another side holds it. Raises KeyError."""
        value = self[key]
        if self._private is not None and key not in self._private:
            value = copied(value)
            self[key] = value
        return value

    def touched(self) -> Iterator[K]:
        """The keys that are in a fork's own layer; none for a dict that is not a fork."""
        return iter(())

    def __setitem__(self, key: K, value: V) -> None:
        if self._private is not None:
            self._private.add(key)
            self._hand_down(key)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: K) -> None:
        if self._private is not None:
            self._private.discard(key)
            self._hand_down(key)
        dict.__delitem__(self, key)

    def pop(self, key: K, default: Any = _NONE) -> Any:
        if self._private is not None:
            self._private.discard(key)
            self._hand_down(key)
        return dict.pop(self, key) if default is _NONE else dict.pop(self, key, default)

    def setdefault(self, key: K, default: V = None) -> V:  # type: ignore[assignment]
        raise NotImplementedError

    def update(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError

    def clear(self) -> None:
        raise NotImplementedError

    def popitem(self) -> tuple[K, V]:
        raise NotImplementedError

    def _living(self) -> list[ref[_Fork[K, V]]]:
        return [each for each in self._forks if each() is not None]

    def _hand_down(self, key: K) -> None:
        """Hand the key's value to the forks before it changes: they keep what they see."""
        before = self.get(key, _NONE) if self._forks else _NONE
        has_dead = False
        for each in self._forks:
            fork = each()
            if fork is None:
                has_dead = True
            else:
                fork._keep(key, before)
        if has_dead:
            self._forks = self._living()
        if not self._forks and type(self) is ForkableDict:
            self._private = None


class _Fork(ForkableDict[K, V]):
    """A layer over another dict. In the dict's own storage are the keys that differ from it, or did."""

    __slots__ = ("_below", "_gone", "_length")

    def __init__(self, below: ForkableDict[K, V]) -> None:
        super().__init__()
        self._private = set()
        self._below = below
        self._gone: set[K] = set()
        """Keys that are below but not here."""
        self._length = len(below)

    def _keep(self, key: K, before: V) -> None:
        """Keep the value of a key that is about to change below. That changes nothing here, nor in forks of this
        one."""
        if not dict.__contains__(self, key) and key not in self._gone:
            if before is _NONE:
                self._gone.add(key)
            else:
                dict.__setitem__(self, key, before)

    def touched(self) -> Iterator[K]:
        return dict.__iter__(self)

    # --- reading ------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: K) -> V:
        found = self.get(key, _NONE)
        if found is _NONE:
            raise KeyError(key)
        value: V = found
        return value

    def get(self, key: K, default: Any = None) -> Any:
        found = dict.get(self, key, _NONE)
        if found is not _NONE:
            return found
        return default if key in self._gone else self._below.get(key, default)

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or (key not in self._gone and key in self._below)

    def __len__(self) -> int:
        return self._length

    def __bool__(self) -> bool:
        return self._length > 0

    def __iter__(self) -> Iterator[K]:
        """In the order below; keys that are there no more, or never were, come last."""
        gone = self._gone
        for key in self._below:
            if key not in gone:
                yield key
        for key in dict.__iter__(self):
            if key not in self._below:
                yield key

    def keys(self) -> Any:
        return KeysView(self)

    def values(self) -> Any:
        return ValuesView(self)

    def items(self) -> Any:
        return ItemsView(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and dict(self.items()) == dict(other.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    # --- writing ------------------------------------------------------------------------------------------------------

    def __setitem__(self, key: K, value: V) -> None:
        if self._forks:
            self._hand_down(key)
        if key not in self:
            self._length += 1
            self._gone.discard(key)
        assert self._private is not None
        self._private.add(key)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: K) -> None:
        self.pop(key)

    def pop(self, key: K, default: Any = _NONE) -> Any:
        found = self.get(key, _NONE)
        if found is _NONE:
            if default is _NONE:
                raise KeyError(key)
            return default
        if self._forks:
            self._hand_down(key)
        self._length -= 1
        dict.pop(self, key, None)
        self._gone.add(key)
        assert self._private is not None
        self._private.discard(key)
        return found
