"""What VolumeBinding's refusals are about: the claim, its volume or class, and what the nodes lack."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from scheduler.cluster.view import View
from scheduler.cluster.volumes.pools import node_affinity_of
from scheduler.framework.findings import Cause, RowArray
from scheduler.objects.requirements import Requirement
from scheduler.objects.shown_amounts import shown_amount
from scheduler.objects.storage import NO_PROVISIONER, PersistentVolume, PersistentVolumeClaim
from scheduler.plugins.volume_binding.delayed import NOT_FOUND, TOO_SMALL, DelayedClaim, DelayedClaims

NANO_BYTES = 10**9
"""A claim's size is kept in nano-bytes."""


def causes_of_bound(claims: tuple[PersistentVolumeClaim, ...], view: View, rows: RowArray) -> Iterator[Cause]:
    """``rows``: of the table that volumes are kept for."""
    for claim in claims:
        name = claim.spec.volume_name
        volume = view.volumes.volume(name)
        if volume is None:
            text = f"claim {claim.key} is bound to volume {name}, which is not there"
            yield Cause(np.ones(len(rows), np.bool_), _saying(text))
            continue
        reached = view.volumes.rows_reaching(volume)
        if reached is not None:
            text = f"claim {claim.key} is bound to volume {name}, which is used only where {_wanted(volume)}"
            yield Cause(~reached[rows], _saying(text))


def causes_of_delayed(claims: DelayedClaims, view: View, rows: RowArray, node_names: list[str]) -> Iterator[Cause]:
    """``rows``: of the table that volumes are kept for; ``node_names``: of the same rows."""
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
        where = f"volume {volume.metadata.name}, which is set aside for it, is used only where {_wanted(volume)}"
    else:
        where = "no free volume here fits"
    if claim.storage_class.provisioner in ("", NO_PROVISIONER):
        return f"{asked}: {where}, and its class makes none"
    terms = [
        " and ".join(f"{part.key} is {_listed(part.values)}" for part in term.match_label_expressions)
        for term in claim.storage_class.allowed_topologies
    ]
    return f"{asked}: {where}, and its class makes volumes only where {' or '.join(terms)}"


def _too_small(claim: DelayedClaim) -> str:
    return (
        f"claim {claim.claim.key}: {claim.storage_class.provisioner} publishes no capacity of {_size(claim)} "
        f"for class {claim.claim.storage_class} here (CSIStorageCapacity)"
    )


def _size(claim: DelayedClaim) -> str:
    return shown_amount("memory", -(-claim.size // NANO_BYTES)) if claim.size else "any size"


def _wanted(volume: PersistentVolume) -> str:
    """A volume's node affinity, such as ``topology.kubernetes.io/zone is a``."""
    selector = node_affinity_of(volume)
    terms = [] if selector is None else [" and ".join(map(_shown, term.expressions)) for term in selector.terms]
    return " or ".join(terms) or "nothing"


def _shown(requirement: Requirement) -> str:
    values = _listed(requirement.values)
    return f"{requirement.key} {requirement.operator.value} {values}".rstrip()


def _listed(values: tuple[str, ...]) -> str:
    return "|".join(values)
