"""The type of sort keys, by which queue-sort plugins order the active queue."""

from __future__ import annotations

from typing import Never, Protocol


class Comparable(Protocol):
    """A value that has an order among others of its kind: a number, a text, a tuple of them."""

    def __lt__(self, other: Never, /) -> bool: ...


SortKey = tuple[Comparable, ...]
"""The smaller of two keys is popped first. All keys of one plugin have the same types at the same places."""
