"""VolumeBinding's answers for all nodes at once, against going through volumes and nodes one by one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import testing
from scheduler.cluster.volumes.reserved import Reservation
from scheduler.framework.plugin import State
from scheduler.objects.meta import ApiObject
from scheduler.objects.node import Node
from scheduler.objects.node_selectors import parse_node_selector, topology_matches
from scheduler.objects.storage import SELECTED_NODE_ANNOTATION, PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.plugins.volume_binding.volume_binding import BIND_CONFLICT, VolumeBinding
from scheduler.testing.fragments import node_term
from tests import builders
from tests.plugins.clusters import cluster, info, reasons

PLUGIN = VolumeBinding()
CLAIMS = ("c1", "c2")

_labels = st.fixed_dictionaries({}, optional={"zone": st.sampled_from("ab"), "disk": st.sampled_from("xy")})
_expressions = st.sampled_from(
    ("zone In a", "zone In b", "zone In a,b", "zone NotIn a", "zone Exists", "disk In x", "disk DoesNotExist")
)
_affinity = st.lists(st.lists(_expressions, min_size=1, max_size=2), max_size=2)


def _volume(number: int, size: int, affinity: list[list[str]], mode: str, owner: str | None) -> PersistentVolume:
    return builders.volume(
        f"v{number}",
        size=f"{size}Gi",
        storage_class="s",
        modes=[mode],
        claimed_by={"namespace": "default", "name": owner, "uid": ""} if owner is not None else None,
        node_affinity=[node_term(*term) for term in affinity] or None,
    )


def _claim(name: str, size: int, selected: str | None) -> PersistentVolumeClaim:
    annotations = {SELECTED_NODE_ANNOTATION: selected} if selected is not None else {}
    return builders.claim(name, size=f"{size}Gi", storage_class="s", annotations=annotations)


_modes = st.sampled_from(("ReadWriteOnce", "ReadWriteOnce", "ReadOnlyMany"))
_owners = st.sampled_from((None, None, None, None, "c1", "other"))
_volumes = st.lists(st.tuples(st.integers(1, 3), _affinity, _modes, _owners), max_size=5).map(
    lambda drawn: [_volume(number, *each) for number, each in enumerate(drawn)]
)
_claims = st.tuples(
    *(st.builds(_claim, st.just(name), st.integers(1, 3), st.sampled_from((None, None, None, "n0"))) for name in CLAIMS)
)
_classes = st.builds(
    lambda provisioner, zones: builders.storage_class("s", provisioner, topologies=[{"zone": zones}] if zones else ()),
    st.sampled_from(("kubernetes.io/no-provisioner", "kubernetes.io/no-provisioner", "csi.test")),
    st.sampled_from(((), (), ("a",))),
)
_nodes = st.lists(_labels, min_size=1, max_size=5).map(
    lambda drawn: [testing.node(f"n{number}", labels=each) for number, each in enumerate(drawn)]
)


def _plainly(
    node: Node, claims: tuple[PersistentVolumeClaim, ...], volumes: list[PersistentVolume], offered: StorageClass
) -> dict[str, str] | None:
    """Claim → its volume ("" for a new one) on a node; None if it has no source for all of them."""
    if any(claim.selected_node not in (None, node.metadata.name) for claim in claims):
        return None
    chosen: dict[str, str] = {}
    for claim in sorted(
        (each for each in claims if each.selected_node is None), key=lambda c: c.requested_storage or 0
    ):
        match = _match(claim, [each for each in volumes if each.metadata.name not in chosen.values()], node)
        if match is not None:
            chosen[claim.metadata.name] = match
    for claim in claims:
        if claim.metadata.name not in chosen:
            if offered.provisioner != "csi.test" or not topology_matches(
                offered.allowed_topologies, node.metadata.labels
            ):
                return None
            chosen[claim.metadata.name] = ""
    return chosen


def _match(claim: PersistentVolumeClaim, volumes: list[PersistentVolume], node: Node) -> str | None:
    best: PersistentVolume | None = None
    for volume in volumes:
        required = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
        fits = required is None or parse_node_selector(required).matches(node.metadata.labels)
        if volume.spec.claim_ref is not None and not volume.is_claimed_by(claim):
            continue
        if volume.storage_capacity < (claim.requested_storage or 0):
            continue
        if volume.is_claimed_by(claim):
            return volume.metadata.name if fits else None
        if not fits or not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
            continue
        if best is None or volume.storage_capacity < best.storage_capacity:
            best = volume
    return best.metadata.name if best is not None else None


@given(_nodes, _claims, _volumes, _classes)
@settings(max_examples=200)
def test_every_node_gets_the_answer_of_a_plain_walk(
    nodes: list[Node],
    claims: tuple[PersistentVolumeClaim, ...],
    volumes: list[PersistentVolume],
    offered: StorageClass,
) -> None:
    objects: list[ApiObject] = [offered, *claims, *volumes]
    view = cluster(nodes, objects=objects)
    pod = info(claims=CLAIMS)
    found = reasons(PLUGIN, pod, view)
    state: Any = PLUGIN.pre_filter(pod, view)
    assert isinstance(state, State)
    for node in nodes:
        name = node.metadata.name
        expected = _plainly(node, claims, volumes, offered)
        assert found.get(name) == (None if expected is not None else (BIND_CONFLICT,))
        if expected is not None:
            assert _chosen(PLUGIN.reserve(state, pod.on_node(name), view, name)) == expected


def _chosen(effects: Any) -> dict[str, str]:
    (effect,) = effects
    assert isinstance(effect, Reservation)
    bindings = {each.claim.metadata.name: each.volume.metadata.name for each in effect.bindings}
    for binding in effect.bindings:
        assert msgspec.to_builtins(binding.volume.spec.claim_ref)["uid"] == binding.claim.uid
    return bindings | {each.claim.metadata.name: "" for each in effect.provisions}


@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
def test_a_volume_that_was_set_aside_for_a_claim_of_another_mode_is_not_its_volume(mode: str) -> None:
    owner = {"namespace": "default", "name": "c1", "uid": ""}
    volume = builders.volume("v", storage_class="s", claimed_by=owner, spec={"volumeMode": mode})
    static = builders.storage_class("s", "kubernetes.io/no-provisioner")
    view = cluster([testing.node("n0")], [], [static, volume, builders.claim("c1", storage_class="s")])
    refused = {} if mode == "Filesystem" else {"n0": (BIND_CONFLICT,)}
    assert reasons(PLUGIN, info(claims=["c1"]), view) == refused
