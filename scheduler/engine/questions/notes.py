"""What an answer says beside its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from scheduler.engine.questions.evictions import Evicted, LeftBehind

_NAMED: Final = 10


def of_evictions(evicted: Sequence[Evicted], left: Sequence[LeftBehind]) -> Iterator[str]:
    """Drains that do not come to their end, and pods that leave later."""
    kept = [one for one in left if len(one.budgets) == 1]
    if kept:
        yield f"the drain of {_nodes(kept)} does not end: budgets keep {_counted(len(kept))} there"
    refused = [one for one in left if len(one.budgets) > 1]
    if refused:
        count = _counted(len(refused))
        yield f"the drain of {_nodes(refused)} fails: the API server evicts none of {count} under more than one budget"
    seconds = [one.after_seconds for one in evicted if one.after_seconds]
    if seconds:
        first, last = min(seconds), max(seconds)
        after = f"{first} s" if first == last else f"{first} to {last} s"
        yield f"{_counted(len(seconds))} created again after {after}, until when the old ones tolerate the taint"


def _nodes(left: Sequence[LeftBehind]) -> str:
    names = list(dict.fromkeys(one.node for one in left))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _counted(count: int) -> str:
    return f"{count} pod{'s' * (count != 1)}"
