"""Members of groups and what single pods can do: extenders, Permit plugins, volumes, devices, nominated nodes."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.cluster.devices.allocated import Holdings
from scheduler.framework.plugin import Wait
from scheduler.messages.commands import BindPod, CallExtender, RunPlugin, UpdateObject
from scheduler.messages.status import unschedulable
from scheduler.messages.stimuli import Tick, WakingContinued
from scheduler.objects.devices import DeviceClass, ResourceSlice
from scheduler.objects.kinds import Kind, decode
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.testing.fragments import node_term
from scheduler.testing.objects import build
from tests import builders, device_documents
from tests.engine.gangs import TOPOLOGY, Gangs, topology, zones
from tests.engine.scripted import calls_of, scripted


def with_extender(**fields: Any) -> Gangs:
    extender = {"urlPrefix": "http://e1.test", "nodeCacheCapable": True, "filterVerb": "filter", **fields}
    return Gangs(configuration={"extenders": [extender]})


def answer_all(cluster: Gangs, *nodes: str) -> int:
    """Answer each call with these nodes until none is asked; how many there were."""
    calls = 0
    cluster.schedule_all()
    while cluster.writes(CallExtender):
        cluster.answer(cluster.write(CallExtender), {"NodeNames": list(nodes)})
        cluster.schedule_all()
        calls += 1
    return calls


# --- extenders --------------------------------------------------------------------------------------------------------


def test_an_extender_is_asked_about_each_member_and_sees_those_before_it() -> None:
    cluster = with_extender()
    cluster.nodes_like(2, cpu="2")
    cluster.group(min_count=3)
    cluster.members(3, cpu="1")
    asked: list[list[str]] = []
    cluster.schedule_all()
    while cluster.writes(CallExtender):
        call = cluster.write(CallExtender)
        names = sorted(msgspec.json.decode(call.body)["NodeNames"])
        asked.append(names)
        cluster.answer(call, {"NodeNames": [name for name in names if name == "n0"] or names})
        cluster.schedule_all()
    assert asked == [["n0", "n1"], ["n0", "n1"], ["n1"]]
    assert sorted(cluster.bound().values()) == ["n0", "n0", "n1"]


def test_while_a_member_waits_for_an_extender_other_pods_are_tried() -> None:
    cluster = with_extender(managedResources=[{"name": "example.com/gpu"}])
    cluster.node("n", cpu="4", allocatable={"example.com/gpu": "4"})
    cluster.group(min_count=2)
    cluster.members(2, requests={"example.com/gpu": "1"})
    cluster.schedule_all()
    assert len(cluster.writes(CallExtender)) == 1
    cluster.pod("plain", cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {"plain": "n"}
    assert answer_all(cluster, "n") == 2
    assert set(cluster.bound()) == {"plain", "g0", "g1"}


def test_an_extender_that_is_silent_ends_the_attempt_of_the_whole_gang() -> None:
    cluster = with_extender(httpTimeout="1s")
    cluster.node("n", cpu="4")
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    cluster.time += 60
    cluster.feed(Tick())
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert cluster.conditions()[0][:2] == ("False", "SchedulerError")
    assert cluster.conditions()[0][2].startswith("failed to schedule other pod from a pod group: ")


# --- Reserve, Permit --------------------------------------------------------------------------------------------------


def test_what_a_trial_reserves_is_only_on_its_fork_and_the_commit_reserves_it_again() -> None:
    plugin = scripted("Watching", reserve=lambda pod, node: None, unreserve=lambda pod, node: None)
    cluster = Gangs(plugins=(plugin,))
    cluster.node("n", cpu="4")
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    assert len(cluster.bound()) == 2
    assert calls_of(plugin).count("reserve g0 n") == 2


def test_a_member_that_another_permit_plugin_refuses_takes_the_whole_gang_with_it() -> None:
    plugin = scripted("Picky", permit=lambda pod, node: unschedulable("not today") if pod == "g1" else None)
    cluster = Gangs(plugins=(plugin,))
    cluster.node("n", cpu="4")
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert cluster.reason_of("g1") == ("Unschedulable", "0/1 nodes are available: 1 not today.")
    assert cluster.engine.cache.assumed_count == 0


def test_a_group_whose_pods_must_all_wait_for_another_permit_plugin_is_not_feasible() -> None:
    cluster = Gangs(plugins=(scripted("Slow", permit=lambda pod, node: Wait(60)),))
    cluster.node("n", cpu="4")
    cluster.group(min_count=None)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {}
    assert cluster.conditions() == [("False", "Unschedulable", "pod group is unschedulable")]


def test_a_member_whose_binding_fails_goes_alone_and_joins_later() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="4")
    cluster.group(min_count=2)
    cluster.members(2, cpu="1")
    cluster.schedule_all()
    cluster.succeed(cluster.write(BindPod, "g0"))
    cluster.fail(cluster.write(BindPod, "g1"), 422, "no")
    cluster.advance(5)
    cluster.schedule_all()
    assert cluster.bound() == {"g1": "n"}


def test_members_that_start_together_cost_no_write_but_their_bindings() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="4")
    cluster.group(min_count=3)
    cluster.members(3, cpu="1")
    cluster.schedule_all()
    assert [type(command) for command in cluster.unanswered] == [BindPod] * 3


def test_members_wait_in_permit_only_within_the_step_that_starts_them() -> None:
    plugin = scripted("Binder", bind=True)
    cluster = Gangs(plugins=(plugin,))
    cluster.node("n", cpu="4")
    cluster.group(min_count=3)
    cluster.members(3, cpu="1")
    cluster.schedule_all()
    assert not any(cluster.engine.bindings.waits_in_permit(cluster.uid(name)) for name in ("g0", "g1", "g2"))
    assert len(cluster.writes(BindPod)) + len(cluster.writes(RunPlugin)) == 3


# --- volumes and devices ----------------------------------------------------------------------------------------------


def test_two_members_do_not_share_a_claim_for_one_pod() -> None:
    cluster = Gangs()
    cluster.nodes_like(2, cpu="4")
    cluster.show(builders.volume("v", modes=["ReadWriteOncePod"]))
    cluster.show(builders.claim("c", modes=["ReadWriteOncePod"], volume="v"))
    cluster.group(min_count=2)
    cluster.members(2, cpu="1", claims=["c"])
    cluster.schedule_all()
    assert cluster.bound() == {}


def devices(cluster: Gangs, count: int) -> None:
    gpus = [device_documents.gpu(f"gpu{number}") for number in range(count)]
    expression = f'device.driver == "{device_documents.DRIVER}"'
    cluster.show(build(DeviceClass, device_documents.device_class("gpu", expression)))
    cluster.show(build(ResourceSlice, device_documents.resource_slice("n0", *gpus)))


def claimants(cluster: Gangs, count: int) -> None:
    for number in range(count):
        cluster.show(build(ResourceClaim, device_documents.claim(f"claim{number}", "gpu")))
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": f"claim{number}"}]}
        cluster.member(f"g{number}", cpu="1", spec=spec)


def test_members_get_different_devices() -> None:
    cluster = Gangs()
    cluster.nodes_like(2, cpu="8")
    devices(cluster, 3)
    cluster.group(min_count=3)
    claimants(cluster, 3)
    cluster.schedule_all()
    assert {cluster.node_of(f"g{number}") for number in range(3)} == {"n0"}
    assert cluster.engine.cache.devices.in_flight != Holdings()
    cluster.engine.check()


def test_a_gang_with_fewer_devices_than_members_takes_none() -> None:
    cluster = Gangs()
    cluster.nodes_like(2, cpu="8")
    devices(cluster, 2)
    cluster.group(min_count=3)
    claimants(cluster, 3)
    cluster.schedule_all()
    assert cluster.engine.cache.assumed_count == 0
    assert cluster.engine.cache.devices.in_flight == Holdings()
    cluster.engine.check()


def test_a_gang_that_loses_its_room_while_it_is_placed_gives_its_devices_back() -> None:
    cluster = Gangs()
    cluster.nodes_like(2, cpu="8")
    devices(cluster, 3)
    cluster.group(min_count=3)
    claimants(cluster, 3)
    while cluster.engine.cache.assumed_count < 2:
        cluster.schedule()
    assert cluster.engine.cache.devices.in_flight != Holdings()
    cluster.remove_node("n0")
    cluster.schedule_all()
    assert cluster.engine.cache.assumed_count == 0
    assert cluster.engine.cache.devices.in_flight == Holdings()
    cluster.engine.check()


def local_volumes(cluster: Gangs, count: int) -> None:
    cluster.show(builders.storage_class("local", "kubernetes.io/no-provisioner"))
    for number in range(count):
        term = node_term(f"kubernetes.io/hostname In n{number}")
        cluster.show(builders.volume(f"v{number}", storage_class="local", node_affinity=[term]))
    for number in range(3):
        cluster.show(builders.claim(f"c{number}", storage_class="local"))
        cluster.member(f"g{number}", cpu="1", claims=[f"c{number}"])


def test_members_get_different_volumes_and_go_where_these_are() -> None:
    cluster = Gangs()
    for number in range(5):
        cluster.node(f"n{number}", cpu="4", labels={"kubernetes.io/hostname": f"n{number}"})
    cluster.group(min_count=3)
    local_volumes(cluster, 3)
    cluster.schedule_all()
    assert {cluster.node_of(f"g{number}") for number in range(3)} == {"n0", "n1", "n2"}


def test_a_gang_with_fewer_volumes_than_members_takes_none() -> None:
    cluster = Gangs()
    for number in range(5):
        cluster.node(f"n{number}", cpu="4", labels={"kubernetes.io/hostname": f"n{number}"})
    cluster.group(min_count=3)
    local_volumes(cluster, 2)
    cluster.schedule_all()
    assert cluster.engine.cache.assumed_count == 0
    assert cluster.unanswered == [one for one in cluster.unanswered if not isinstance(one, BindPod | UpdateObject)]
    cluster.engine.check()


# --- nominated nodes --------------------------------------------------------------------------------------------------


def test_a_member_goes_first_to_the_node_that_it_is_nominated_to() -> None:
    cluster = Gangs()
    cluster.nodes_like(8, cpu="4")
    cluster.group(min_count=2)
    cluster.member("g0", cpu="1", nominated="n5")
    cluster.member("g1", cpu="1", nominated="n5")
    cluster.schedule_all()
    assert cluster.bound() == {"g0": "n5", "g1": "n5"}


def test_the_room_of_a_pod_that_is_nominated_and_more_urgent_is_not_the_gangs() -> None:
    cluster = Gangs()
    cluster.node("n", cpu="2")
    cluster.pod("low", cpu="1", node="n", priority=1)
    cluster.pod("urgent", cpu="2", priority=100)
    cluster.schedule()
    assert cluster.nominated("urgent") == "n"
    cluster.group(min_count=1)
    cluster.members(1, cpu="1", priority=5)
    cluster.schedule_all()
    assert "g0" not in cluster.bound()


def test_a_gang_in_one_domain_with_an_extender_sees_only_that_domain() -> None:
    extender = {"urlPrefix": "http://e1.test", "nodeCacheCapable": True, "filterVerb": "filter"}
    cluster = Gangs(TOPOLOGY, configuration={"extenders": [extender]})
    zones(cluster, a="1", b="2")
    cluster.group(min_count=3, **topology())
    cluster.members(3, cpu="1")
    seen: set[str] = set()
    cluster.schedule_all()
    while cluster.writes(CallExtender):
        call = cluster.write(CallExtender)
        names = msgspec.json.decode(call.body)["NodeNames"]
        assert len({name[0] for name in names}) == 1
        seen.add(names[0][0])
        cluster.answer(call, {"NodeNames": names})
        cluster.schedule_all()
    assert seen == {"a", "b"}
    assert {node[0] for node in cluster.bound().values()} == {"b"}


def test_a_group_object_that_cannot_be_read_as_one_changes_nothing_else() -> None:
    found = decode(Kind.POD_GROUP, b'{"metadata":{"name":"g","namespace":"default"},"spec":{"schedulingPolicy":{}}}')
    cluster = Gangs()
    cluster.node("n", cpu="4")
    cluster.show(found)
    cluster.members(1, cpu="1")
    cluster.schedule_all()
    assert cluster.bound() == {"g0": "n"}


def test_members_that_are_large_start_together_with_pauses_on_the_way() -> None:
    cluster = Gangs()
    cluster.nodes_like(2, cpu="8")
    cluster.group(min_count=2)
    terms = [
        {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"a{each}"}}}}
        for each in range(1_000)
    ]
    cluster.members(2, spec={"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}})
    pauses = 0
    for _ in range(30):
        cluster.schedule()
        while cluster.engine.is_waking:
            cluster.feed(WakingContinued())
            pauses += 1
    assert pauses >= 2
    assert set(cluster.bound()) == {"g0", "g1"}
