"""Which names of resources stand for what: extended, scalar and pod-level resources."""

from __future__ import annotations

from collections.abc import Collection

from scheduler.objects.memo import has_many_parts, is_long_text, memo
from scheduler.objects.qualified_names import are_qualified_names, qualified_name_faults


@memo(4096, is_long_text)
def is_extended_resource(name: str) -> bool:
    """Whether it is a resource outside of Kubernetes' own domains, such as `example.com/gpu`."""
    return (
        "/" in name
        and "kubernetes.io/" not in name
        and not name.startswith("requests.")
        and not qualified_name_faults(f"requests.{name}")
    )


@memo(4096, is_long_text)
def is_scalar_resource(name: str) -> bool:
    """Whether it is counted beside cpu, memory, ephemeral-storage and pods."""
    return (
        "kubernetes.io/" in name or name.startswith(("hugepages-", "attachable-volumes-")) or is_extended_resource(name)
    )


def is_pod_level_resource(name: str) -> bool:
    """Whether it may be requested at pod level."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def scalar_names(names: Collection[str]) -> list[str]:
    """The names that ``is_scalar_resource`` accepts. Of many most are extended resources, and are checked at once."""
    if not has_many_parts(names):
        return [name for name in names if is_scalar_resource(name)]
    extended = [name for name in names if "/" in name and "kubernetes.io/" not in name]
    if any(name.startswith("requests.") for name in extended) or not are_qualified_names(
        [f"requests.{name}" for name in extended]
    ):
        return [name for name in names if is_scalar_resource(name)]
    return [name for name in names if "/" in name or is_scalar_resource(name)]
