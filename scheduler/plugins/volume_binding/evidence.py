"""What VolumeBinding's refusals are about: the claim, its volume or class, and what the nodes lack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np

from scheduler.cluster.view import View
from scheduler.cluster.volumes.storage_selectors import node_affinity_of, topologies_of
from scheduler.framework.findings import Cause, RowArray
from scheduler.objects.node_selectors import NodeSelector, NodeSelectorTerm
from scheduler.objects.requirements import Operator, Requirement
from scheduler.objects.shown_amounts import shown_amount
from scheduler.objects.storage import NO_PROVISIONER, PersistentVolumeClaim
from scheduler.plugins.volume_binding.delayed import NOT_FOUND, TOO_SMALL, DelayedClaim, DelayedClaims

NANO_BYTES = 10**9
"""A claim's size is kept in nano-bytes."""
MAX_SHOWN: Final = 10
"""Terms, requirements and values of a selector that are shown; one object may have 100,000."""

Part = TypeVar("Part")


def causes_of_bound(claims: tuple[PersistentVolumeClaim, ...], view: View, rows: RowArray) -> Iterator[Cause]:
    """Why rows are refused for claims that are bound. ``rows``: of the table that volumes are kept for."""
    for claim in claims:
        name = claim.spec.volume_name
        volume = view.volumes.volume(name)
        if volume is None:
            text = f"claim {claim.key} is bound to volume {name}, which is not there"
            yield Cause(np.ones(len(rows), np.bool_), _saying(text))
            continue
        reached = view.volumes.rows_reaching(volume)
        if reached is not None:
            where = _shown(node_affinity_of(volume))
            text = f"claim {claim.key} is bound to volume {name}, which is used only where {where}"
            yield Cause(~reached[rows], _saying(text))


def causes_of_delayed(claims: DelayedClaims, view: View, rows: RowArray, node_names: list[str]) -> Iterator[Cause]:
    """Why rows are refused for claims that are bound with their pod. ``rows``: of the table that volumes are kept for;
    ``node_names``: of the same rows."""
    for claim in claims.to_make:
        node = claim.claim.selected_node
        text = f"claim {claim.claim.key}: its volume is to be made for node {node} (volume.kubernetes.io/selected-node)"
        yield Cause(np.array([name != node for name in node_names], np.bool_), _saying(text))
    for claim, codes in claims.shortfalls(view.volumes):
        yield Cause(codes[rows] == NOT_FOUND, _saying(_not_found(claim)))
        yield Cause(codes[rows] == TOO_SMALL, _saying(_too_small(claim)))


def _saying(text: str) -> Callable[[RowArray], str]:
    return lambda _rows: text


def _not_found(claim: DelayedClaim) -> str:
    asked = f"claim {claim.claim.key} ({_size(claim)} of class {claim.claim.storage_class})"
    volume = claim.set_aside
    if volume is not None:
        reached = _shown(node_affinity_of(volume))
        where = f"volume {volume.metadata.name}, which is set aside for it, is used only where {reached}"
    else:
        where = "no free volume here fits"
    if claim.storage_class.provisioner in ("", NO_PROVISIONER):
        return f"{asked}: {where}, and its class makes none"
    topologies = _shown(topologies_of(claim.storage_class))
    return f"{asked}: {where}, and its class makes volumes only where {topologies}"


def _too_small(claim: DelayedClaim) -> str:
    return (
        f"claim {claim.claim.key}: {claim.storage_class.provisioner} publishes no capacity of {_size(claim)} "
        f"for class {claim.claim.storage_class} here (CSIStorageCapacity)"
    )


def _size(claim: DelayedClaim) -> str:
    return shown_amount("memory", -(-claim.size // NANO_BYTES)) if claim.size else "any size"


def _shown(selector: NodeSelector | None) -> str:
    """What a volume or a class requires of a node, such as ``topology.kubernetes.io/zone is a|b``."""
    terms = () if selector is None else selector.terms
    return _some(" or ", terms, _shown_term) or "nothing"


def _shown_term(term: NodeSelectorTerm) -> str:
    return _some(" and ", term.expressions, _shown_requirement)


def _shown_requirement(requirement: Requirement) -> str:
    verb = "is" if requirement.operator is Operator.IN else requirement.operator.value
    return f"{requirement.key} {verb} {_some('|', requirement.values, str)}".rstrip()


def _some(joint: str, parts: Sequence[Part], shown: Callable[[Part], str]) -> str:
    """The first parts, and how many more there are."""
    more = [f"{len(parts) - MAX_SHOWN} more"] if len(parts) > MAX_SHOWN else []
    return joint.join([*map(shown, parts[:MAX_SHOWN]), *more])
