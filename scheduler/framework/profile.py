"""A profile: the plugins of one scheduler name, made from configuration, in the order in which each point runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from scheduler.config.args import args_path, decode_args
from scheduler.config.plugin_sets import Expansion, Implements, expand
from scheduler.config.points import Point
from scheduler.config.types import ProfileConfiguration
from scheduler.errors import ConfigurationError, Fault, type_and_message
from scheduler.framework.placements import PlacementGeneratePlugin, PlacementScorePlugin
from scheduler.framework.plugin import (
    BindPlugin,
    FilterPlugin,
    FragmentReads,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScopedPlugin,
    ScorePlugin,
)
from scheduler.framework.post_filter import PostFilterPlugin
from scheduler.framework.stepwise import LookingPlugin, StepwisePlugin
from scheduler.framework.traits import traits_of
from scheduler.objects.selectors import EVERYTHING, Selector

POINT_TYPES: dict[Point, type[Plugin]] = {
    Point.PRE_ENQUEUE: PreEnqueuePlugin,
    Point.QUEUE_SORT: QueueSortPlugin,
    Point.PRE_FILTER: PreFilterPlugin,
    Point.FILTER: FilterPlugin,
    Point.POST_FILTER: PostFilterPlugin,
    Point.PRE_SCORE: PreScorePlugin,
    Point.SCORE: ScorePlugin,
    Point.RESERVE: ReservePlugin,
    Point.PERMIT: PermitPlugin,
    Point.PRE_BIND: PreBindPlugin,
    Point.BIND: BindPlugin,
    Point.POST_BIND: PostBindPlugin,
    Point.PLACEMENT_GENERATE: PlacementGeneratePlugin,
    Point.PLACEMENT_SCORE: PlacementScorePlugin,
}

Registry = Mapping[str, type[Plugin]]


class Profile(Struct, frozen=True):
    """The plugins by extension point, as the engine uses them."""

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    plugins: tuple[Plugin, ...]
    """All plugins, in the order of the default list."""
    queue_sort: QueueSortPlugin
    pre_enqueue_plugins: tuple[PreEnqueuePlugin, ...]
    pre_filter_plugins: tuple[PreFilterPlugin, ...]
    filter_plugins: tuple[FilterPlugin, ...]
    post_filter_plugins: tuple[PostFilterPlugin, ...]
    score_plugins: tuple[tuple[ScorePlugin, int], ...]
    """Score plugins and weights; ``pre_score`` of those that are also PreScore plugins is called first."""
    reserve_plugins: tuple[ReservePlugin, ...]
    permit_plugins: tuple[PermitPlugin, ...]
    pre_bind_plugins: tuple[PreBindPlugin, ...]
    bind_plugins: tuple[BindPlugin, ...]
    post_bind_plugins: tuple[PostBindPlugin, ...]
    static_fragment_plugins: tuple[Plugin, ...]
    """Plugins whose fragment depends on the pod's template alone."""
    choosy_plugins: tuple[Plugin, ...]
    """Plugins without declarations that do say which pods concern them."""
    cluster_fragment_plugins: tuple[Plugin, ...]
    """Plugins whose fragment depends on more than that, computed in each attempt."""
    stepwise_plugins: tuple[StepwisePlugin, ...] = ()
    """Those of the filter plugins whose answers may take long."""
    looking_plugins: tuple[LookingPlugin, ...] = ()
    """Plugins whose PreFilter or PreScore may take long for a large pod."""
    pre_score_only_plugins: tuple[PreScorePlugin, ...] = ()
    """PreScore plugins that do not score in this profile. Their states are unused, but they may fail."""
    placement_generator: PlacementGeneratePlugin | None = None
    """Which sets of nodes a group of pods is tried on; None: on all nodes."""
    tries_placements: bool = False
    """Whether groups are tried by placement, though it be the one of all nodes."""
    placement_scorers: tuple[tuple[PlacementScorePlugin, int], ...] = ()
    """Plugins and weights: which of several sets of nodes a group gets."""
    enabled: frozenset[str] = frozenset()
    """Names of the plugins that a point enables, or ``multiPoint`` although each point disables them."""
    node_scope: Selector = EVERYTHING
    """The nodes that the profile may use: no pod is placed on another, and no victim is taken there."""

    def reserving(self, unconcerned: frozenset[str]) -> tuple[ReservePlugin, ...]:
        """The Reserve plugins without these."""
        return tuple([one for one in self.reserve_plugins if one.name not in unconcerned])

    def permitting(self, unconcerned: frozenset[str]) -> tuple[PermitPlugin, ...]:
        """The Permit plugins without these."""
        return tuple([one for one in self.permit_plugins if one.name not in unconcerned])


_INNER: Final = frozenset({("DynamicResources", Point.PRE_SCORE)})
"""Steps of a plugin's Score that kube-scheduler's plugin has no point for."""


class Scope(Struct, frozen=True):
    """The nodes that a profile may use, and the filter that sees to it."""

    selector: Selector
    keeper: FilterPlugin


def implementing(registry: Registry) -> Implements:
    """Whether a plugin takes part in a point, so that a configuration may name it there."""

    def implements(name: str, point: Point) -> bool:
        return name in registry and issubclass(registry[name], POINT_TYPES[point]) and (name, point) not in _INNER

    return implements


def build_profile(
    configuration: ProfileConfiguration,
    registry: Registry,
    index: int = 0,
    scope: Scope | None = None,
    *,
    tries_placements: bool = False,
) -> Profile:
    """Creates the plugins of a profile and assigns them to their extension points.

    ``index`` is the profile's index in the configuration, for the paths of faults. ``scope`` None: the profile may use
    all nodes. Plugins get it when they are made, since nothing is assigned onto a plugin. Raises ConfigurationError
    with all faults: unknown plugins, invalid arguments, extension points without a required plugin.
    """
    expansion = expand(configuration.plugins, implementing(registry), registry.keys(), configuration.scheduler_name)
    made = _made_plugins(configuration, registry, expansion, index, scope)
    in_order = tuple(made[name] for name in registry if name in made)
    return _assigned(configuration, expansion, made, in_order, scope, tries_placements)


def _made_plugins(
    configuration: ProfileConfiguration, registry: Registry, expansion: Expansion, index: int, scope: Scope | None
) -> dict[str, Plugin]:
    """The plugins that some point enables, by name. Raises ConfigurationError with all faults of the profile."""
    faults = list(expansion.faults)
    enabled = {entry.name: None for entries in expansion.points.values() for entry in entries}
    made: dict[str, Plugin] = {}
    for name in enabled:
        plugin = _make(configuration, registry[name], index, faults, scope)
        if plugin is not None:
            made[name] = plugin
    # Arguments of plugins that are not enabled are checked, too, as by kube-scheduler.
    for config in configuration.plugin_config:
        if config.name in registry and config.name not in enabled:
            _arguments(configuration, registry[config.name], index, faults)
    if faults:
        raise ConfigurationError(
            Fault(fault.path or f"profiles[{index}]", fault.message) for fault in dict.fromkeys(faults)
        )
    return made


def _assigned(
    configuration: ProfileConfiguration,
    expansion: Expansion,
    made: Mapping[str, Plugin],
    in_order: tuple[Plugin, ...],
    scope: Scope | None,
    tries_placements: bool,
) -> Profile:
    """The profile with each plugin at its points. ``in_order``: all plugins, in the order of the default list."""

    def at(point: Point) -> tuple[Plugin, ...]:
        return tuple(made[entry.name] for entry in expansion.points[point])

    weights = {entry.name: entry.weight for entry in expansion.points[Point.SCORE]}
    placement_weights = {entry.name: entry.weight for entry in expansion.points[Point.PLACEMENT_SCORE]}
    keepers: tuple[FilterPlugin, ...] = ()
    if scope is not None:
        keepers = (scope.keeper,)
        in_order = (scope.keeper, *in_order)
    deciding = [
        plugin
        for plugin in in_order
        if isinstance(plugin, PreFilterPlugin | FilterPlugin | PreScorePlugin | ScorePlugin)
    ]
    declared = [plugin for plugin in deciding if traits_of(plugin).is_declared]
    return Profile(
        scheduler_name=configuration.scheduler_name,
        percentage_of_nodes_to_score=configuration.percentage_of_nodes_to_score,
        plugins=in_order,
        queue_sort=at(Point.QUEUE_SORT)[0],  # type: ignore[arg-type]
        pre_enqueue_plugins=at(Point.PRE_ENQUEUE),  # type: ignore[arg-type]
        pre_filter_plugins=_pre_filters(at(Point.PRE_FILTER), at(Point.FILTER)),
        filter_plugins=keepers + at(Point.FILTER),  # type: ignore[operator]
        stepwise_plugins=tuple([plugin for plugin in at(Point.FILTER) if isinstance(plugin, StepwisePlugin)]),
        looking_plugins=tuple([plugin for plugin in in_order if isinstance(plugin, LookingPlugin)]),
        post_filter_plugins=at(Point.POST_FILTER),  # type: ignore[arg-type]
        score_plugins=tuple((plugin, weights[plugin.name]) for plugin in at(Point.SCORE)),  # type: ignore[misc]
        reserve_plugins=at(Point.RESERVE),  # type: ignore[arg-type]
        permit_plugins=at(Point.PERMIT),  # type: ignore[arg-type]
        pre_bind_plugins=at(Point.PRE_BIND),  # type: ignore[arg-type]
        bind_plugins=at(Point.BIND),  # type: ignore[arg-type]
        post_bind_plugins=at(Point.POST_BIND),  # type: ignore[arg-type]
        static_fragment_plugins=tuple(plugin for plugin in declared if plugin.fragment_reads is FragmentReads.TEMPLATE),
        choosy_plugins=tuple(
            plugin
            for plugin in in_order
            if not traits_of(plugin).is_declared and type(plugin).concerns is not Plugin.concerns
        ),
        cluster_fragment_plugins=tuple(
            plugin for plugin in declared if plugin.fragment_reads is not FragmentReads.TEMPLATE
        ),
        pre_score_only_plugins=tuple(plugin for plugin in at(Point.PRE_SCORE) if plugin.name not in weights),  # type: ignore[misc]
        placement_generator=next(iter(at(Point.PLACEMENT_GENERATE)), None),  # type: ignore[arg-type]
        tries_placements=tries_placements,
        placement_scorers=tuple(
            (plugin, placement_weights[plugin.name])  # type: ignore[misc]
            for plugin in at(Point.PLACEMENT_SCORE)
        ),
        enabled=frozenset(made) | {entry.name for entry in configuration.plugins.multi_point.enabled},
        node_scope=EVERYTHING if scope is None else scope.selector,
    )


def _pre_filters(listed: Sequence[Plugin], filters: Sequence[Plugin]) -> tuple[PreFilterPlugin, ...]:
    """The PreFilter plugins of a profile, and those of its Filter plugins that need their own one."""
    needed = [
        plugin
        for plugin in filters
        if isinstance(plugin, FilterPlugin) and plugin.needs_pre_filter and plugin not in listed
    ]
    return tuple([plugin for plugin in (*listed, *needed) if isinstance(plugin, PreFilterPlugin)])


def _make(
    configuration: ProfileConfiguration,
    plugin_type: type[Plugin],
    index: int,
    faults: list[Fault],
    scope: Scope | None,
) -> Plugin | None:
    """The plugin with its arguments decoded and checked; None if they have a fault."""
    count = len(faults)
    args = _arguments(configuration, plugin_type, index, faults)
    return None if len(faults) > count else _constructed(plugin_type, args, scope)


def _arguments(
    configuration: ProfileConfiguration, plugin_type: type[Plugin], index: int, faults: list[Fault]
) -> Struct | None:
    """The arguments of a plugin, decoded and checked; None where it has none, and where they have a fault, which is
    added to ``faults``."""
    if plugin_type.Args is None:
        return None
    place = next(
        (at for at, config in enumerate(configuration.plugin_config) if config.name == plugin_type.name),
        len(configuration.plugin_config),
    )
    path = args_path(index, place)
    try:
        args, found = decode_args(plugin_type.Args, configuration.args_of(plugin_type.name), path, plugin_type.name)
    except Exception as error:  # noqa: BLE001 - of a user plugin's Struct: its annotations, defaults or __post_init__
        args, found = None, (Fault(path, f"{plugin_type.Args.__name__}: {type_and_message(error)}"),)
    if args is not None:
        found = tuple(Fault(*pair) for pair in plugin_type.validate_args(args, path))
    faults.extend(found)
    return None if found else args


def _constructed(plugin_type: type[Plugin], args: Struct | None, scope: Scope | None) -> Plugin:
    if scope is not None and issubclass(plugin_type, ScopedPlugin):
        return plugin_type(args, scope.selector)
    return plugin_type() if plugin_type.Args is None else plugin_type(args)
