"""The arguments of PodTopologySpread and their validation (docs/kube-scheduler/config.md §5)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler.config.field_faults import child, duplicate, forbidden, invalid, not_supported, required
from scheduler.config.validators import int32, label_name
from scheduler.errors import Fault
from scheduler.objects.pod import TopologySpreadConstraint

SYSTEM_DEFAULTING = "System"
LIST_DEFAULTING = "List"
DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"

HOSTNAME_KEY = "kubernetes.io/hostname"
ZONE_KEY = "topology.kubernetes.io/zone"

SYSTEM_CONSTRAINTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME_KEY, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE_KEY, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)


class PodTopologySpreadArgs(msgspec.Struct, frozen=True, rename="camel"):
    """``default_constraints`` apply to pods without their own, and require ``defaulting_type`` List."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = SYSTEM_DEFAULTING

    @property
    def is_system_defaulted(self) -> bool:
        """An empty type is the default, as in kube-scheduler."""
        return self.defaulting_type in ("", SYSTEM_DEFAULTING)


def args_faults(args: PodTopologySpreadArgs, path: str) -> Iterator[Fault]:
    """The faults of the plugin's args, in kube-scheduler's words. ``path``: the path of the args."""
    constraints = args.default_constraints
    type_path = child(path, "defaultingType")
    if args.defaulting_type not in ("", SYSTEM_DEFAULTING, LIST_DEFAULTING):
        yield not_supported(type_path, args.defaulting_type, (SYSTEM_DEFAULTING, LIST_DEFAULTING))
    elif args.is_system_defaulted and constraints:
        yield invalid(type_path, SYSTEM_DEFAULTING, "when .defaultConstraints are not empty")
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        place = f"{child(path, 'defaultConstraints')}[{index}]"
        yield from _constraint_faults(constraint, place)
        identity = constraint.topology_key, constraint.when_unsatisfiable
        if identity in seen:
            yield duplicate(place, f"{{{identity[0]}, {identity[1]}}}")
        seen.add(identity)


def _constraint_faults(constraint: TopologySpreadConstraint, place: str) -> Iterator[Fault]:
    if constraint.max_skew <= 0:
        yield invalid(f"{place}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    yield from int32(f"{place}.maxSkew", constraint.max_skew)
    yield from int32(f"{place}.minDomains", constraint.min_domains or 0)
    if constraint.topology_key:
        yield from label_name(f"{place}.topologyKey", constraint.topology_key)
    else:
        yield required(f"{place}.topologyKey", "can not be empty")
    action_path = f"{place}.whenUnsatisfiable"
    if not constraint.when_unsatisfiable:
        yield required(action_path, "can not be empty")
    elif constraint.when_unsatisfiable not in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
        yield not_supported(action_path, constraint.when_unsatisfiable, (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY))
    if constraint.label_selector is not None:
        yield forbidden(f"{place}.labelSelector", "constraint must not define a selector, as they deduced for each pod")
