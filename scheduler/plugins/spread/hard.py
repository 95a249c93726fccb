"""One hard constraint of PodTopologySpread with the counts of its domains (docs/kube-scheduler/plugins.md §3.12)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from scheduler.cluster.domains import DomainCounts, widened
from scheduler.cluster.interning import ABSENT
from scheduler.cluster.table import NodeTable
from scheduler.framework.row_facts import FactColumn
from scheduler.plugins.spread.constraints import Constraint

MISSING_KEY, TOO_UNEVEN = 1, 2
"""Codes of refusals."""

_NO_OTHERS: Final = np.iinfo(np.int64).max
"""In place of the smallest count of no domains."""


class HardConstraint(Struct, frozen=True):
    """A DoNotSchedule constraint with its counts."""

    constraint: Constraint
    matches_itself: bool
    counts: DomainCounts
    """The number of matching pods by domain; 0 if the domain has no node that counts."""
    present: npt.NDArray[np.bool_]
    """Whether a domain has a node that counts, by value id."""
    domains: int
    """The number of domains with a node that counts."""
    lowest: int
    """The smallest count among those domains; 0 if there are fewer than the constraint's ``minDomains``."""
    at_lowest: int | None = None
    """How many of those domains have that count; None: not counted."""

    @property
    def has_domains_enough(self) -> bool:
        """Whether ``lowest`` is a domain's count."""
        return self.domains >= self.constraint.min_domains

    def max_before(self) -> int:
        """The largest number of matching pods with which a domain can take the pod."""
        return self.constraint.max_skew - int(self.matches_itself) + self.lowest

    def codes_by_value(self, table: NodeTable) -> npt.NDArray[np.int16]:
        """The refusal code of each domain, by value id."""
        codes = (widened(self.counts, table, self.constraint.topology_key) > self.max_before()).astype(np.int16)
        codes *= TOO_UNEVEN
        codes[ABSENT] = MISSING_KEY
        return codes

    def codes_again(self, codes: npt.NDArray[np.int16], value_ids: Iterable[int]) -> npt.NDArray[np.int16]:
        """``codes_by_value``, where only the counts of these domains have changed since it was ``codes``; the same
        array if it says the same."""
        most, now = self.max_before(), codes
        for value_id in value_ids:
            code = TOO_UNEVEN if self.counts.item(value_id) > most else 0
            if now.item(value_id) != code:
                now = codes.copy() if now is codes else now
                now[value_id] = code
        return now

    def changed(self, value_id: int, sign: int, table: NodeTable) -> HardConstraint:
        """The constraint with one matching pod more (``sign`` +1) or less (-1) in the domain of this value."""
        known = self.counts
        if value_id >= len(known):
            known = widened(known, table, self.constraint.topology_key)
        counts = known.copy()
        before = counts.item(value_id)
        after = counts[value_id] = before + sign
        present, lowest, at_lowest = self.present, self.lowest, self.at_lowest
        if self.has_domains_enough:
            if after < lowest:
                lowest, at_lowest = after, None
            elif after == lowest:
                at_lowest = None
            elif before == lowest and value_id < len(present) and present.item(value_id):
                # In an even spread most domains have the lowest count, and the pods go to one after the other of them.
                if at_lowest is None:
                    at_lowest = int(np.count_nonzero((counts[: len(present)] == lowest) & present))
                else:
                    at_lowest -= 1
                if not at_lowest:
                    lowest, at_lowest = int(counts[: len(present)][present].min()), None
        return HardConstraint(self.constraint, self.matches_itself, counts, present, self.domains, lowest, at_lowest)

    def facts(self, table: NodeTable) -> dict[str, FactColumn]:
        """By row: the count of its domain, whether that has a node that counts, and the smallest count of the others.
        From these follow ``lowest`` and what ``changed`` makes of it for any changes in that domain."""
        key = self.constraint.topology_key
        ids, counts = table.label(key), widened(self.counts, table, key)
        present = np.zeros(len(counts), np.bool_)
        present[: len(self.present)] = self.present
        others = np.full(len(counts), _NO_OTHERS)
        counted = counts[present]
        if len(counted):
            lowest, next_to_it = np.partition(np.append(counted, _NO_OTHERS), 1)[:2].tolist()
            others[:] = lowest
            others[present & (counts == lowest)] = next_to_it
        return {"count": counts.take(ids), "present": present.astype(np.int64).take(ids), "others": others.take(ids)}
