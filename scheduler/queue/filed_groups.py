"""Pool groups filed by the keys of a hint: which of them an event may concern, without a call of the hint.

A thousand pods may wait for a thousand others, each for one by its label. An event with labels that none had before
would cost a thousand calls of a hint, and a thousand such events a million.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import HintKeys, Wanted


class FiledGroups:
    """Positions of groups in their index, filed by the keys that an event's object must offer to concern them.

    Each condition of a group is filed under the set of its keys that fewest others are filed under.
    """

    __slots__ = ("_any_object", "_by_key", "_keys", "count")

    def __init__(self, keys: HintKeys) -> None:
        self._keys = keys
        self._by_key: dict[Hashable, list[int]] = {}
        self._any_object: list[int] = []
        """Groups of which the plugin cannot say what they want."""
        self.count = 0
        """The number of positions that were looked at."""

    def file(self, position: int, pod: PodInfo | None) -> None:
        """File the group at the next position. ``pod``: one of the group's; None if the group has none left."""
        self.count = position + 1
        if pod is None:
            return
        sets = self._emptiest(pod)
        if sets is None:
            self._any_object.append(position)
            return
        for keys in sets:
            for key in keys:
                self._by_key.setdefault(key, []).append(position)

    def concerned(self, objects: Iterable[object], since: int) -> list[int] | None:
        """Positions from ``since`` on that an event with these objects may concern, ascending; None: any may be."""
        found = set(self._any_object)
        try:
            for each in objects:
                offered = self._keys.offered(each) if each is not None else ()
                if offered is None:
                    return None
                for key in offered:
                    found.update(self._by_key.get(key, ()))
        except Exception:  # noqa: BLE001 - a plugin's; without keys its hint is asked, which is always right
            return None
        return sorted([position for position in found if position >= since])

    def _emptiest(self, pod: PodInfo) -> list[frozenset[Hashable]] | None:
        try:
            wanted: Wanted | None = self._keys.wanted(pod)
            if wanted is None:
                return None
            return [min(condition, key=self._crowd) for condition in wanted]
        except Exception:  # noqa: BLE001 - a plugin's, as in ``concerned``; so is a condition without a set
            return None

    def _crowd(self, keys: frozenset[Hashable]) -> int:
        return sum([len(self._by_key.get(key, ())) + 1 for key in keys])
