"""A plugin's declarations as plain booleans for the hot loops, computed once per plugin class."""

from __future__ import annotations

from msgspec import Struct

from scheduler.cluster.row_journal import NODE_CHANGED, USAGE_CHANGED
from scheduler.framework.plugin import Plugin, Reads


class Traits(Struct, frozen=True):
    flags: int
    """The flags of the row journal that invalidate the plugin's answer for a row."""
    is_declared: bool
    has_stamp: bool
    counts_pods: bool
    """The stamp may change, or the answers without a stamp, where only counters of pods did."""
    reads_feasible_rows: bool


_KNOWN: dict[type[Plugin], Traits] = {}


def traits_of(plugin: Plugin) -> Traits:
    plugin_type = type(plugin)
    traits = _KNOWN.get(plugin_type)
    if traits is None:
        traits = _KNOWN[plugin_type] = _traits(plugin_type)
    return traits


def _traits(plugin_type: type[Plugin]) -> Traits:
    reads = plugin_type.reads
    flags = NODE_CHANGED if Reads.NODE in reads else 0
    flags |= USAGE_CHANGED if Reads.USAGE in reads else 0
    is_declared = Reads.UNDECLARED not in reads
    return Traits(
        flags=flags,
        is_declared=is_declared,
        has_stamp=is_declared and plugin_type.stamp is not Plugin.stamp,
        counts_pods=not is_declared or plugin_type.counts_pods,
        reads_feasible_rows=Reads.FEASIBLE in reads,
    )
