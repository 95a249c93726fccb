"""The extension points, and the plugin sets that a profile gives them."""

from __future__ import annotations

import enum
from typing import Annotated, Final

import msgspec

EVERY_PLUGIN: Final = "*"
"""In a ``disabled`` list: all of them."""


class Point(enum.Enum):
    """An extension point; the value is its key in a profile's ``plugins``. In the order of a pod's way through them."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"

    @property
    def title(self) -> str:
        """The point's name in messages and metrics, such as ``PreFilter``."""
        return self.value[0].upper() + self.value[1:]

    @property
    def plugin_type(self) -> str:
        """kube-scheduler's word for the plugins of this point, such as ``PreFilterPlugin``."""
        return f"{self.title}Plugin"


class PluginEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A plugin named in a set. ``weight`` counts for scoring only; 0 means that none was given."""

    name: str = ""
    weight: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 0


class PluginSet(msgspec.Struct, frozen=True, rename="camel"):
    """The plugins enabled and disabled at one point, in the order given."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()


class Plugins(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A profile's plugin sets, one a point, and the one that counts at every point (``multi_point``).

    The placement points belong to groups of pods: nothing runs there without TopologyAwareWorkloadScheduling.
    """

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()

    def at(self, point: Point) -> PluginSet:
        """The set of one point, as written: the plugins of ``multi_point`` are not in it."""
        plugin_set: PluginSet = getattr(self, _FIELDS[point])
        return plugin_set


_FIELDS: Final = {point: point.name.lower() for point in Point}
