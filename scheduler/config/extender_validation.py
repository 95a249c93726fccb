"""Validation of a configuration's ``extenders``."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.config import validators
from scheduler.config.field_faults import invalid, required
from scheduler.config.types import Extender
from scheduler.errors import Fault


def extender_faults(extenders: tuple[Extender, ...]) -> Iterator[Fault]:
    """Every fault of the extenders, in kube-scheduler 1.36's words; in addition an address is required."""
    resources: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if not extender.url_prefix:
            yield required(f"{path}.urlPrefix")
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it")
        if extender.http_timeout < 0:
            yield invalid(f"{path}.httpTimeout", extender.http_timeout, "must be non-negative")
        for number, resource in enumerate(extender.managed_resources):
            place = f"{path}.managedResources[{number}].name"
            yield from validators.extended_resource_name(place, resource.name)
            if resource.name in resources:
                yield invalid(place, resource.name, "duplicate extender managed resource name")
            resources.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        detail = "only one extender can implement bind"
        yield invalid("extenders", f"found {binders} extenders implementing bind", detail)
