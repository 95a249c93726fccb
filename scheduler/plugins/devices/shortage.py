"""Nodes that have too few devices for a request: no search is needed to see that (docs/kube-scheduler/dra.md §6.4)."""

from __future__ import annotations

from scheduler.cluster.devices.pools import Pool, PoolState
from scheduler.objects.steps import Pace, Steps
from scheduler.plugins.devices.candidates import admitted, measured
from scheduler.plugins.devices.holders import Holders
from scheduler.plugins.devices.requests import MAX_RESULTS, ClaimNeeds, Need


def falls_short(claims: tuple[ClaimNeeds, ...], pools: tuple[Pool, ...], holders: Holders, pace: Pace) -> Steps[bool]:
    """Whether some request finds fewer free devices than it asks for, whatever the others get, in a search that can
    come upon no error: most nodes are refused so, at a fraction of the search's cost."""
    usable = [pool for pool in pools if pool.state is PoolState.COMPLETE]
    is_short = False
    for claim in claims:
        least = 0
        for request in claim.requests:
            has_enough = False
            for need in request.alternatives:
                if need.takes_all or (yield from measured(need.selectors, pace)):
                    return False
                free = yield from _free(need, usable, holders, pace)
                if free is None:
                    return False
                has_enough = has_enough or free >= need.exact_count
            least += min([need.exact_count for need in request.alternatives])
            is_short = is_short or not has_enough
        if least > MAX_RESULTS:
            return False
    return is_short


def _free(need: Need, usable: list[Pool], holders: Holders, pace: Pace) -> Steps[int | None]:
    """How many devices pass the selectors and are not taken; None where a selector fails on some."""
    free = 0
    for pool in usable:
        found = yield from admitted(need.selectors, pool, pace)
        if any(fault for _, fault in found):
            return None
        taken = () if need.is_admin else holders.of_pool(pool.key).taken
        if taken:
            free += sum([pool.devices[place].device.id[2] not in taken for place, _ in found])
        else:
            free += len(found)
    return free
