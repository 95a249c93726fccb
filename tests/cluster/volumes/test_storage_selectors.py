"""Selectors of claims, volumes and classes: short ones, and those of 1.5 MB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler import testing
from scheduler.cluster.cache import ClusterCache
from scheduler.cluster.volumes.storage_selectors import (
    MAX_KEPT_PARTS,
    has_long_selector,
    labels_wanted_by,
    node_affinity_of,
    parse_in_steps,
    topologies_of,
)
from scheduler.objects.selectors import SelectorError, parse_selector
from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from tests import builders

HOST = "kubernetes.io/hostname"
IN_HOSTS = {"key": HOST, "operator": "In"}


def affine(hosts: Sequence[str], name: str = "v") -> PersistentVolume:
    parts = [{"key": HOST, "operator": "In", "values": [host]} for host in hosts]
    return builders.volume(name, node_affinity=[{"matchExpressions": [part]} for part in parts])


def wanting(**selector: Any) -> PersistentVolumeClaim:
    return builders.claim("c", spec={"selector": selector})


def allowing(hosts: Sequence[str]) -> StorageClass:
    return builders.storage_class("s", topologies=[{HOST: [host]} for host in hosts])


MANY = [f"n{number}" for number in range(4_000)]


def test_what_nothing_is_required_of_has_no_selector() -> None:
    assert node_affinity_of(builders.volume("v")) is None
    assert labels_wanted_by(builders.claim("c")).is_everything
    assert topologies_of(builders.storage_class("s")) is None


@pytest.mark.parametrize("hosts", [MANY[:2], MANY], ids=["short", "long"])
def test_a_volume_or_class_accepts_the_nodes_of_any_of_its_terms(hosts: list[str]) -> None:
    for selector in (node_affinity_of(affine(hosts)), topologies_of(allowing(hosts))):
        assert selector is not None
        assert len(selector.terms) == len(hosts)
        assert selector.matches({HOST: hosts[-1]})
        assert not selector.matches({HOST: "other"})


def test_a_class_whose_only_term_is_empty_allows_no_node() -> None:
    selector = topologies_of(builders.storage_class("s", topologies=[{}]))
    assert selector is not None
    assert not selector.matches({HOST: "n0"})


def test_a_volumes_requirements_on_fields_are_not_looked_at() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n0"]}
    part = {"key": HOST, "operator": "In", "values": ["n0"]}
    selector = node_affinity_of(
        builders.volume("v", node_affinity=[{"matchExpressions": [part], "matchFields": [field]}])
    )
    assert selector is not None
    assert selector.matches({HOST: "n0"}, "another")


@pytest.mark.parametrize("count", [1, 5_000], ids=["short", "long"])
def test_a_faulty_selector_of_a_claim_says_so_each_time(count: int) -> None:
    claim = wanting(matchLabels={f"key-{number}": "not a value!" for number in range(count)})
    texts = []
    for _ in range(2):
        with pytest.raises(SelectorError) as caught:
            labels_wanted_by(claim)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert "not a value!" in texts[0]


def test_a_long_selector_is_parsed_once_while_its_object_stays_the_same() -> None:
    claim = wanting(matchLabels={f"key-{number}": "v" for number in range(5_000)})
    first = labels_wanted_by(claim)
    assert labels_wanted_by(claim) is first
    assert first == parse_selector(claim.spec.selector)
    other = wanting(matchLabels={f"key-{number}": "v" for number in range(5_000)})
    assert labels_wanted_by(other) is not first
    assert labels_wanted_by(other) == first


def test_the_long_selectors_that_are_kept_have_a_limit_together() -> None:
    volumes = [affine([f"h{number}-{host}" for host in MANY], f"v{number}") for number in range(30)]
    assert 30 * 3 * len(MANY) > MAX_KEPT_PARTS
    first = node_affinity_of(volumes[0])
    assert node_affinity_of(volumes[0]) is first
    for volume in volumes:
        node_affinity_of(volume)
    assert node_affinity_of(volumes[0]) is not first
    assert node_affinity_of(volumes[0]) == first


def test_only_long_selectors_are_said_to_be_so() -> None:
    assert not has_long_selector(wanting(matchLabels={"a": "b"}), affine(MANY[:5]), allowing(MANY[:5]))
    assert not has_long_selector(builders.claim("c"), None, None)
    values = [{"key": HOST, "operator": "In", "values": MANY}]
    assert has_long_selector(wanting(matchExpressions=values), None, None)
    assert has_long_selector(builders.claim("c"), affine(MANY), None)
    assert has_long_selector(builders.claim("c"), None, allowing(MANY))


def test_parsing_in_steps_pauses_and_who_asks_next_has_the_result() -> None:
    claim = wanting(matchLabels={f"key-{number}": "v" for number in range(9_000)})
    volume, storage_class = affine(MANY), allowing(MANY)
    pauses = sum(1 for _ in parse_in_steps(claim, volume, storage_class))
    assert pauses >= 6
    found = node_affinity_of(volume)
    assert list(parse_in_steps(claim, volume, storage_class)) == []
    assert node_affinity_of(volume) is found


def test_masks_of_long_selectors_are_kept_only_as_far_as_these_are_not_too_long_together() -> None:
    cache = ClusterCache()
    cache.observe_node(testing.node("n0"))

    def with_values(number: int) -> PersistentVolume:
        hosts = [f"h{number}-{host}" for host in range(MAX_KEPT_PARTS // 4)]
        return builders.volume(f"v{number}", node_affinity=[{"matchExpressions": [{**IN_HOSTS, "values": hosts}]}])

    volumes = [with_values(number) for number in range(6)]
    first = cache.volumes.rows_reaching(volumes[0])
    assert cache.volumes.rows_reaching(volumes[0]) is first
    for volume in volumes:
        cache.volumes.rows_reaching(volume)
    again = cache.volumes.rows_reaching(volumes[0])
    assert again is not first
    assert again is not None
    assert not again.any()
