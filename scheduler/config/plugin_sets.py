"""Which plugins run at which point: a profile's sets over the defaults, ``multiPoint`` spread over the points."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec

from scheduler.config.points import EVERY_PLUGIN, PluginEntry, Plugins, PluginSet, Point
from scheduler.config.suggestions import did_you_mean
from scheduler.errors import Fault

MAX_NODE_SCORE: Final = 100
MAX_TOTAL_SCORE: Final = 2**63 - 1

# kube-scheduler 1.36 builds the points in this order: the first one reports an unknown plugin.
_BUILD_ORDER: Final = (
    Point.PRE_FILTER,
    Point.FILTER,
    Point.POST_FILTER,
    Point.RESERVE,
    Point.PRE_SCORE,
    Point.SCORE,
    Point.PRE_BIND,
    Point.BIND,
    Point.POST_BIND,
    Point.PERMIT,
    Point.PRE_ENQUEUE,
    Point.QUEUE_SORT,
    Point.PLACEMENT_GENERATE,
    Point.PLACEMENT_SCORE,
)

Implements = Callable[[str, Point], bool]
"""Whether the plugin of that name takes part in a point."""


class EnabledPlugin(msgspec.Struct, frozen=True):
    """A plugin at its place at a point. ``weight`` scales scores of nodes or placements; it is never 0."""

    name: str
    weight: int


class Expansion(msgspec.Struct, frozen=True):
    """The plugins of every point in the order in which they run, and the profile's faults."""

    points: dict[Point, tuple[EnabledPlugin, ...]]
    faults: tuple[Fault, ...]


def merge_plugin_sets(user: PluginSet, default: PluginSet) -> PluginSet:
    """A user's set over the default set, as kube-scheduler 1.36 merges them.

    A default plugin that the user enables again is replaced in its place; one that is disabled and enabled moves to the
    end, which is the way to reorder. Duplicates are kept: they are refused when the profile is expanded.
    """
    disabled = user.disabled + default.disabled
    dropped = {entry.name for entry in disabled}
    # Of a plugin enabled twice the last entry takes the default's place.
    last_place = {entry.name: index for index, entry in enumerate(user.enabled)}
    replacing: set[int] = set()
    enabled: list[PluginEntry] = []
    if EVERY_PLUGIN not in dropped:
        for entry in default.enabled:
            if entry.name in dropped:
                continue
            place = last_place.get(entry.name)
            if place is None:
                enabled.append(entry)
            else:
                replacing.add(place)
                enabled.append(user.enabled[place])
    enabled.extend(entry for index, entry in enumerate(user.enabled) if index not in replacing)
    return PluginSet(tuple(enabled), _without_repeats(disabled))


def merge_plugins(user: Plugins, default: Plugins) -> Plugins:
    """``merge_plugin_sets`` at every point, ``multiPoint`` included."""
    return Plugins(
        **{
            field: merge_plugin_sets(getattr(user, field), getattr(default, field))
            for field in Plugins.__struct_fields__
        }
    )


def expand(plugins: Plugins, implements: Implements, known: Collection[str], scheduler_name: str) -> Expansion:
    """Spread ``multiPoint`` over the points, with the places and weights of kube-scheduler 1.36.

    At a point: first the plugins that the point names and ``multiPoint`` has as well, in the point's order; then
    those of ``multiPoint``; then the others that the point names. ``known`` holds all plugins by name. Faults have
    the texts of a failed framework build and no path.
    """
    faults = _Once()
    weights = _score_weights(plugins, Point.SCORE, implements, known, faults)
    placement_weights = _score_weights(plugins, Point.PLACEMENT_SCORE, implements, known, faults)
    points: dict[Point, tuple[EnabledPlugin, ...]] = {}
    for point in _BUILD_ORDER:
        _check_specific(plugins.at(point), point, implements, known, faults)
    for point in _BUILD_ORDER:
        names = _names_at(plugins, point, implements, known, faults)
        weight_of = placement_weights if point is Point.PLACEMENT_SCORE else weights
        points[point] = tuple(EnabledPlugin(name, weight_of.get(name, 1)) for name in names)
    sorters = len(points[Point.QUEUE_SORT])
    profile = f'profile with scheduler name "{scheduler_name}"'
    if sorters != 1:
        faults.add(f"only one queue sort plugin required for {profile}, but got {sorters}")
    if not points[Point.BIND]:
        faults.add(f"at least one bind plugin is needed for {profile}")
    if len(points[Point.PLACEMENT_GENERATE]) > 1:
        faults.add(f"at most one placement generate plugin is allowed for {profile}")
    return Expansion({point: points[point] for point in Point}, tuple(Fault("", text) for text in faults.texts))


class _Once:
    """Distinct texts in the order of their first occurrence."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def add(self, text: str) -> None:
        self._texts[text] = None

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._texts)


def _check_specific(
    plugin_set: PluginSet, point: Point, implements: Implements, known: Collection[str], faults: _Once
) -> None:
    seen: set[str] = set()
    for entry in plugin_set.enabled:
        if entry.name not in known:
            faults.add(f'{point.plugin_type} "{entry.name}" does not exist{did_you_mean(entry.name, known)}')
        elif not implements(entry.name, point):
            faults.add(f'plugin "{entry.name}" does not extend {point.plugin_type} plugin')
        elif entry.name in seen:
            faults.add(f'plugin "{entry.name}" already registered as "{point.plugin_type}"')
        seen.add(entry.name)


def _names_at(
    plugins: Plugins, point: Point, implements: Implements, known: Collection[str], faults: _Once
) -> list[str]:
    """The plugins of a point in their order; those at fault are left out."""
    plugin_set = plugins.at(point)
    specific = [
        name
        for name in dict.fromkeys(entry.name for entry in plugin_set.enabled)
        if name in known and implements(name, point)
    ]
    disabled = {entry.name for entry in plugin_set.disabled}
    if EVERY_PLUGIN in disabled:
        return specific
    overriding: set[str] = set()
    multi: dict[str, None] = {}
    for entry in plugins.multi_point.enabled:
        name = entry.name
        if name not in known:
            # Reported once, not at each point.
            faults.add(f'{_BUILD_ORDER[0].plugin_type} "{name}" does not exist{did_you_mean(name, known)}')
        elif not implements(name, point) or name in disabled:
            continue
        elif name in specific:
            overriding.add(name)
        elif name in multi:
            faults.add(f'plugin "{name}" already registered as "{point.plugin_type}"')
        else:
            multi[name] = None
    first = [name for name in specific if name in overriding]
    last = [name for name in specific if name not in overriding]
    return first + list(multi) + last


def _score_weights(
    plugins: Plugins, point: Point, implements: Implements, known: Collection[str], faults: _Once
) -> dict[str, int]:
    """The weight of every plugin that scores at a point: its set's, else multiPoint's; none or 0 counts as 1."""
    weights: dict[str, int] = {}
    total = 0
    for entry in (*plugins.at(point).enabled, *plugins.multi_point.enabled):
        if entry.name in weights or entry.name not in known or not implements(entry.name, point):
            continue
        weight = entry.weight or 1
        weights[entry.name] = weight
        total += weight * MAX_NODE_SCORE
        what = "placement score" if point is Point.PLACEMENT_SCORE else "score"
        if total > MAX_TOTAL_SCORE:
            faults.add(f"{what} plugins: total score of Score plugins could overflow")
        if weight < 0:
            # kube-scheduler takes one that is not followed by others, or outweighed by those before it.
            faults.add(f'{what} plugins: plugin "{entry.name}" has the weight {weight}, which must be non-negative')
    return weights


def _without_repeats(entries: Iterable[PluginEntry]) -> tuple[PluginEntry, ...]:
    return tuple({entry.name: PluginEntry(entry.name) for entry in entries}.values())
