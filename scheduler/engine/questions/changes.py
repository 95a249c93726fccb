"""Single changes of a waiting pod: a toleration added, a term removed, a resource request lowered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from itertools import islice
from typing import Final

import msgspec

from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.node import Taint
from scheduler.objects.pod import Affinity, Container, Pod, PodSpec, Toleration
from scheduler.objects.selector_fields import NodeSelectorFields, SelectorExpression

CPU: Final = "cpu"
DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"


class Effort(IntEnum):
    """The kinds of changes, in the order in which they are shown: what the pod's owner can change comes first."""

    GATE = 1
    MEMBERS = 2
    RESOURCE = 3
    QUORUM = 4
    TOPOLOGY = 5
    SPREAD = 6
    AFFINITY = 7
    TOLERATION = 8
    PORT = 9
    CLAIM = 10
    PRIORITY = 11
    UNCORDON = 12
    POD_MOVED = 13
    POD_GONE = 14
    NODE_ADDED = 15

    @property
    def shown(self) -> str:
        """The name of this kind of change in answers."""
        return self.name.lower().replace("_", " ")


class Change(msgspec.Struct, frozen=True):
    """A changed pod, and the change in words."""

    effort: Effort
    text: str
    pod: PodInfo


def relaxed(info: PodInfo) -> Iterator[Change]:
    """The pod without one of its own conditions."""
    yield from _gates(info)
    yield from _spread(info)
    yield from _node_terms(info)
    yield from _pod_terms(info)
    yield from _ports(info)
    yield from _claims(info)


def tolerating(info: PodInfo, taint: Taint) -> Change:
    """The pod with a toleration for this taint."""
    added = Toleration(
        key=taint.key, operator="Equal" if taint.value else "Exists", value=taint.value, effect=taint.effect
    )
    return Change(
        Effort.TOLERATION,
        f"tolerate the taint {shown_taint(taint)}",
        _with(info.pod, tolerations=(*info.pod.spec.tolerations, added)),
    )


def asking_less(info: PodInfo, resource: str, amount: int) -> PodInfo | None:
    """The pod with this amount of a resource in total, in the units of ``ResourceVector``: what is taken away is taken
    from its largest containers. None where the containers alone do not decide what it requests."""
    spare = info.requests.amount(resource) - amount
    containers = list(info.pod.spec.containers)
    held = [PodInfo(Pod(spec=_only(one))).requests.amount(resource) for one in containers]
    for index in sorted(range(len(containers)), key=lambda at: -held[at]):
        taken = min(spare, held[index])
        if taken <= 0:
            continue
        spare -= taken
        left = held[index] - taken
        resources = containers[index].resources
        requests = {**resources.requests, resource: f"{left}m" if resource == CPU else str(left)}
        containers[index] = msgspec.structs.replace(
            containers[index], resources=msgspec.structs.replace(resources, requests=requests)
        )
    changed = _with(info.pod, containers=tuple(containers))
    return changed if changed.requests.amount(resource) == amount else None


def with_priority(info: PodInfo, priority: int) -> PodInfo:
    """The pod with another priority, which may preempt."""
    return _with(info.pod, priority=priority, preemption_policy=None)


def shown_taint(taint: Taint) -> str:
    """The taint as kubectl writes it: ``key=value:Effect``."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def shown_expression(expression: SelectorExpression) -> str:
    values = f" ({', '.join(expression.values)})" if expression.values else ""
    return f"{expression.key} {expression.operator}{values}"


def _only(container: Container) -> PodSpec:
    return PodSpec(containers=(container,))


def _with(pod: Pod, **fields: object) -> PodInfo:
    return PodInfo(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **fields)))


def _gates(info: PodInfo) -> Iterator[Change]:
    gates = info.pod.spec.scheduling_gates
    if gates:
        names = ", ".join(gate.name for gate in gates)
        yield Change(Effort.GATE, f"remove its scheduling gates ({names})", _with(info.pod, scheduling_gates=()))


def _spread(info: PodInfo) -> Iterator[Change]:
    constraints = info.pod.spec.topology_spread_constraints
    for index, one in enumerate(constraints):
        if one.when_unsatisfiable == DO_NOT_SCHEDULE:
            soft = msgspec.structs.replace(one, when_unsatisfiable=SCHEDULE_ANYWAY)
            changed = (*constraints[:index], soft, *constraints[index + 1 :])
            text = f"spread over {one.topology_key} only as a preference (ScheduleAnyway)"
            yield Change(Effort.SPREAD, text, _with(info.pod, topology_spread_constraints=changed))


def _node_terms(info: PodInfo) -> Iterator[Change]:
    spec = info.pod.spec
    for key, value in spec.node_selector.items():
        rest = {name: wanted for name, wanted in spec.node_selector.items() if name != key}
        yield Change(Effort.AFFINITY, f"drop {key}={value} from its node selector", _with(info.pod, node_selector=rest))
    affinity = spec.affinity
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return
    terms = affinity.node_affinity.required.node_selector_terms
    for number, term in enumerate(terms):
        if len(term.match_expressions) < 2:
            continue
        for index, expression in enumerate(term.match_expressions):
            rest_of_term = (*term.match_expressions[:index], *term.match_expressions[index + 1 :])
            softer = msgspec.structs.replace(term, match_expressions=rest_of_term)
            yield _with_node_terms(
                info,
                affinity,
                NodeSelectorFields((*terms[:number], softer, *terms[number + 1 :])),
                f"drop {shown_expression(expression)} from its node affinity",
            )
    if len(terms) == 1 and len(terms[0].match_expressions) == 1:
        text = f"drop {shown_expression(terms[0].match_expressions[0])} from its node affinity"
    else:
        text = "drop its required node affinity"
    yield _with_node_terms(info, affinity, None, text)


def _with_node_terms(info: PodInfo, affinity: Affinity, required: NodeSelectorFields | None, text: str) -> Change:
    node_affinity = msgspec.structs.replace(affinity.node_affinity, required=required)  # type: ignore[type-var]  # not None: checked by the caller
    changed = msgspec.structs.replace(affinity, node_affinity=node_affinity)
    return Change(Effort.AFFINITY, text, _with(info.pod, affinity=changed))


def _pod_terms(info: PodInfo) -> Iterator[Change]:
    affinity = info.pod.spec.affinity
    if affinity is None:
        return
    for field, name in (("pod_affinity", "pod affinity"), ("pod_anti_affinity", "pod anti-affinity")):
        part = affinity.pod_affinity if field == "pod_affinity" else affinity.pod_anti_affinity
        for index, term in enumerate(part.required if part is not None else ()):
            assert part is not None
            softer = msgspec.structs.replace(part, required=(*part.required[:index], *part.required[index + 1 :]))
            changed = msgspec.structs.replace(affinity, **{field: softer})
            text = f"drop the required {name} over {term.topology_key}"
            yield Change(Effort.AFFINITY, text, _with(info.pod, affinity=changed))


def _ports(info: PodInfo) -> Iterator[Change]:
    containers = info.pod.spec.containers
    for place, container in enumerate(containers):
        for index, port in enumerate(container.ports):
            if not port.host_port:
                continue
            ports = (*container.ports[:index], *container.ports[index + 1 :])
            changed = msgspec.structs.replace(container, ports=ports)
            text = f"do without the host port {port.host_port}"
            every = (*containers[:place], changed, *containers[place + 1 :])
            yield Change(Effort.PORT, text, _with(info.pod, containers=every))


def _claims(info: PodInfo) -> Iterator[Change]:
    volumes = info.pod.spec.volumes
    for index, volume in enumerate(volumes):
        if volume.persistent_volume_claim is not None:
            rest = (*volumes[:index], *volumes[index + 1 :])
            text = f"have claim {volume.persistent_volume_claim.claim_name} on a volume that the node reaches"
            yield Change(Effort.CLAIM, text, _with(info.pod, volumes=rest))


def gone_or_moved(other: PodInfo, node: str) -> tuple[Effort, str]:
    """What to do with a pod in the way. ``node``: where it fits afterwards, "" for nowhere."""
    if node == other.node_name:
        return Effort.POD_MOVED, f"without pod {other.key} on {node}, which would fit there again afterwards"
    if node:
        return Effort.POD_MOVED, f"move pod {other.key} from {other.node_name} to {node}"
    return Effort.POD_GONE, f"without pod {other.key} on {other.node_name}, which would not fit elsewhere"


class Values(msgspec.Struct, frozen=True, rename="camel"):
    """What the pod wants of nodes, and what the nodes have: ``found`` by the number of nodes, the most frequent
    first; "" stands for nodes without it."""

    wanted: str
    found: dict[str, int]


MAX_VALUES: Final = 20


MAX_KEYS: Final = 50
"""A pod may name thousands, for each of which all nodes are looked at."""


def wanted_keys(info: PodInfo) -> dict[str, str]:
    """Label keys that the pod's node selector and required node affinity name → what is wanted of them; the first
    ``MAX_KEYS``."""
    spec = info.pod.spec
    keys = {key: f"{key}={value}" for key, value in spec.node_selector.items()}
    affinity = spec.affinity
    if affinity is not None and affinity.node_affinity is not None and affinity.node_affinity.required is not None:
        for term in affinity.node_affinity.required.node_selector_terms:
            for one in term.match_expressions:
                keys.setdefault(one.key, shown_expression(one))
    return dict(islice(keys.items(), MAX_KEYS))


def most(counter: Counter[str]) -> dict[str, int]:
    """The most frequent values, and how often they were found."""
    return dict(sorted(counter.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_VALUES])
