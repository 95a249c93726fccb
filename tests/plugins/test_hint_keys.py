"""The keys of built-in hints lead from an event to each pod that the hint would queue."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import EventRegistration, Hint, HintKeys, Resource
from scheduler.framework.plugin import Plugin
from scheduler.objects.storage import PersistentVolumeClaim
from scheduler.plugins.affinity.inter_pod_affinity import InterPodAffinity
from scheduler.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.plugins.spread.args import DO_NOT_SCHEDULE
from scheduler.plugins.spread.pod_topology_spread import PodTopologySpread
from scheduler.plugins.volume_binding.hints import EVENTS as VOLUME_BINDING_EVENTS
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone
from scheduler.testing.objects import build, pod

_LABELS = st.dictionaries(st.sampled_from("kl"), st.sampled_from("xy"))
_VALUES = st.lists(st.sampled_from("xy"), min_size=1, max_size=2, unique=True)
_EXPRESSION = st.one_of(
    st.fixed_dictionaries(
        {"key": st.sampled_from("kl"), "operator": st.sampled_from(("In", "NotIn")), "values": _VALUES}
    ),
    st.fixed_dictionaries({"key": st.sampled_from("kl"), "operator": st.sampled_from(("Exists", "DoesNotExist"))}),
    st.just({"key": "k", "operator": "Bad"}),
)
_SELECTOR = st.none() | st.fixed_dictionaries(
    {"matchLabels": _LABELS, "matchExpressions": st.lists(_EXPRESSION, max_size=2)}
)
_TERM = st.fixed_dictionaries({"topologyKey": st.just("zone"), "labelSelector": _SELECTOR})
_TERMS = st.fixed_dictionaries({"requiredDuringSchedulingIgnoredDuringExecution": st.lists(_TERM, max_size=2)})
_AFFINITY = st.fixed_dictionaries({"podAffinity": _TERMS, "podAntiAffinity": _TERMS}) | st.none()
_CONSTRAINT = st.fixed_dictionaries(
    {
        "maxSkew": st.just(1),
        "topologyKey": st.just("zone"),
        "whenUnsatisfiable": st.just(DO_NOT_SCHEDULE),
        "labelSelector": _SELECTOR,
        "matchLabelKeys": st.sampled_from(([], ["k"])),
    }
)
_VOLUME = st.one_of(
    st.sampled_from("ab").map(lambda name: {"name": name, "persistentVolumeClaim": {"claimName": name}}),
    st.sampled_from("ab").map(lambda name: {"name": name, "gcePersistentDisk": {"pdName": name}}),
    st.just({"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
)
_NAMESPACE = st.sampled_from(("default", "other"))


@st.composite
def pods(draw: Any, name: str) -> PodInfo:
    built = pod(
        name,
        namespace=draw(_NAMESPACE),
        labels=draw(_LABELS),
        node=draw(st.sampled_from((None, "n"))),
        affinity=draw(_AFFINITY),
        spread=draw(st.lists(_CONSTRAINT, max_size=2)),
        volumes=draw(st.lists(_VOLUME, max_size=2)),
    )
    return PodInfo(built)


@st.composite
def claims(draw: Any) -> PersistentVolumeClaim:
    metadata = {"name": draw(st.sampled_from(("a", "b", "waits-a"))), "namespace": draw(_NAMESPACE)}
    return build(PersistentVolumeClaim, {"metadata": metadata})


def _keyed(*plugins: Plugin) -> list[tuple[EventRegistration, HintKeys]]:
    registrations = [one for plugin in plugins for one in plugin.events()]
    return [(one, one.keys) for one in (*registrations, *VOLUME_BINDING_EVENTS) if one.keys is not None]


KEYED = _keyed(InterPodAffinity(), PodTopologySpread(), VolumeRestrictions(), VolumeZone(), NodeVolumeLimits())


def test_hints_about_other_pods_and_about_claims_have_keys() -> None:
    assert len(KEYED) == 7


@pytest.mark.parametrize(("registration", "keys"), KEYED)
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_the_keys_lead_to_each_pod_that_the_hint_queues(
    registration: EventRegistration, keys: HintKeys, data: st.DataObject
) -> None:
    waiting = data.draw(pods("waits"))
    others: Any = claims() if registration.event.resource is Resource.PERSISTENT_VOLUME_CLAIM else pods("other")
    objects = data.draw(st.tuples(st.none() | others, st.none() | others))
    wanted = keys.wanted(waiting)
    offered = [keys.offered(each) for each in objects if each is not None]
    if registration.hint(waiting, *objects) is Hint.SKIP or wanted is None or None in offered:
        return
    found = {key for each in offered if each is not None for key in each}
    assert any(all(not found.isdisjoint(one) for one in condition) for condition in wanted)
