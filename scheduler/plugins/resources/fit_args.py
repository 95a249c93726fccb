"""The arguments of NodeResourcesFit and their validation (docs/kube-scheduler/config.md §5)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler.config.field_faults import child, forbidden, invalid, not_supported, required
from scheduler.config.types import Int32, Int64
from scheduler.config.validators import label_name, resource_weights, shape
from scheduler.errors import Fault
from scheduler.plugins.resources.scoring import Strategy


class ResourceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """A resource with its weight; 0 means 1."""

    name: str = ""
    weight: Int64 = 1


DEFAULT_RESOURCES = (ResourceSpec("cpu"), ResourceSpec("memory"))


class UtilizationShapePoint(msgspec.Struct, frozen=True, rename="camel"):
    """A point of the shape: utilization in percent, score from 0 to 10."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(msgspec.Struct, frozen=True, rename="camel"):
    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(msgspec.Struct, frozen=True, rename="camel"):
    """``ignored_resources`` and ``ignored_resource_groups`` exclude extended resources from the filter."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(Strategy.LEAST_ALLOCATED.value, DEFAULT_RESOURCES)


def completed_resources(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """The resources with defaults: cpu and memory if none are listed, and a weight of 1 for 0."""
    return tuple(ResourceSpec(spec.name, spec.weight or 1) for spec in resources or DEFAULT_RESOURCES)


def args_faults(args: NodeResourcesFitArgs, path: str) -> Iterator[Fault]:
    for index, name in enumerate(args.ignored_resources):
        yield from label_name(f"{path}.ignoredResources[{index}]", name)
    for index, group in enumerate(args.ignored_resource_groups):
        place = f"{path}.ignoredResourceGroups[{index}]"
        if "/" in group:
            yield invalid(place, group, "resource group name can't contain '/'")
        yield from label_name(place, group)
    yield from _strategy_faults(args.scoring_strategy, child(path, "scoringStrategy"))


def _strategy_faults(strategy: ScoringStrategy, path: str) -> Iterator[Fault]:
    known = [choice.value for choice in Strategy]
    if strategy.type not in known:
        yield not_supported(f"{path}.type", strategy.type, known)
    yield from resource_weights(f"{path}.resources", completed_resources(strategy.resources))
    ratio = strategy.requested_to_capacity_ratio
    ratio_path = f"{path}.requestedToCapacityRatio"
    if strategy.type == Strategy.REQUESTED_TO_CAPACITY_RATIO.value:
        if ratio is None:
            yield required(ratio_path, "must be specified when type is RequestedToCapacityRatio")
        else:
            yield from shape(f"{ratio_path}.shape", ratio.shape)
    elif ratio is not None:
        yield forbidden(ratio_path, "must be nil when type is not RequestedToCapacityRatio")
