"""From chosen devices to what is written into the claim (docs/kube-scheduler/dra.md §6.10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.objects.devices import DeviceConfiguration
from scheduler.objects.resource_claims import AllocatedConfiguration, Allocation, DeviceAllocation, DeviceResult
from scheduler.objects.selector_fields import NodeSelectorFields, NodeSelectorTermFields, SelectorExpression
from scheduler.plugins.devices.capacity import written_consumption
from scheduler.plugins.devices.requests import ClaimNeeds
from scheduler.plugins.devices.search import Chosen

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


def allocation_of(
    claim: ClaimNeeds, chosen: Sequence[Chosen], node: str, new_share_id: Callable[[Chosen], str]
) -> Allocation:
    results = tuple([_result(one, new_share_id) for one in chosen])
    return Allocation(
        devices=DeviceAllocation(results=results, config=_config(claim, chosen)),
        node_selector=_node_selector(chosen, node),
    )


def _result(one: Chosen, new_share_id: Callable[[Chosen], str]) -> DeviceResult:
    driver, pool, name = one.device.device.id
    fields = one.device.device.fields
    return DeviceResult(
        request=one.need.name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=one.need.is_admin,
        tolerations=one.need.tolerations,
        binding_conditions=fields.binding_conditions,
        binding_failure_conditions=fields.binding_failure_conditions,
        share_id=None if one.consumed is None else new_share_id(one),
        consumed_capacity=written_consumption(one.need, fields) if one.consumed else {},
    )


# --- configuration ----------------------------------------------------------------------------------------------------


def _config(claim: ClaimNeeds, chosen: Sequence[Chosen]) -> tuple[AllocatedConfiguration, ...]:
    names = list(dict.fromkeys(one.need.name for one in chosen))
    needs = {one.need.name: one.need for one in chosen}
    by_class: dict[str, list[str]] = {}
    for name in names:
        by_class.setdefault(needs[name].device_class.name, []).append(name)
    entries = []
    for requests in by_class.values():
        for config in needs[requests[0]].device_class.spec.config:
            entries.append(AllocatedConfiguration(source=FROM_CLASS, requests=tuple(requests), opaque=config.opaque))
    for config in claim.config:
        entries.extend([_from_claim(config)] * _uses(config, names))
    return tuple(entries)


def _from_claim(config: DeviceConfiguration) -> AllocatedConfiguration:
    return AllocatedConfiguration(source=FROM_CLAIM, requests=config.requests, opaque=config.opaque)


def _uses(config: DeviceConfiguration, names: Sequence[str]) -> int:
    """How often an entry of the claim is repeated: once for each request that it names."""
    if not config.requests:
        return 1
    return sum(name in config.requests or name.partition("/")[0] in config.requests for name in names)


# --- where it can be used ---------------------------------------------------------------------------------------------


def _node_selector(chosen: Sequence[Chosen], node: str) -> NodeSelectorFields | None:
    expressions: list[SelectorExpression] = []
    fields: list[SelectorExpression] = []
    for one in chosen:
        spec = one.device.part.slice.spec
        device = one.device.device.fields
        by_device = bool(spec.per_device_node_selection)
        node_name = device.node_name if by_device else spec.node_name
        if node_name or device.binds_to_node:
            only = SelectorExpression(key="metadata.name", operator="In", values=(node,))
            return NodeSelectorFields(node_selector_terms=(NodeSelectorTermFields(match_fields=(only,)),))
        selector = device.node_selector if by_device else spec.node_selector
        for term in selector.node_selector_terms if selector is not None else ():
            _merge(expressions, term.match_expressions)
            _merge(fields, term.match_fields)
    if not expressions and not fields:
        return None
    term = NodeSelectorTermFields(match_expressions=tuple(expressions), match_fields=tuple(fields))
    return NodeSelectorFields(node_selector_terms=(term,))


def _merge(known: list[SelectorExpression], more: Sequence[SelectorExpression]) -> None:
    for one in more:
        if not any(
            one.key == other.key and one.operator == other.operator and set(one.values) == set(other.values)
            for other in known
        ):
            known.append(one)
