"""What if: a cluster, a question, the expected answer; and nothing of the cluster changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.compose import build_profiles
from scheduler.config.loading import load
from scheduler.engine.questions.answers import ADDED, ASKED, EVICTED, PREEMPTED, SECONDS, WAITING
from scheduler.engine.questions.edits import (
    AddNodes,
    AddTaint,
    Cordon,
    DeleteObject,
    Drain,
    PutObject,
    RemoveNode,
    RemovePod,
    SetLabel,
    Uncordon,
    WrongQuestion,
)
from scheduler.engine.questions.question import Question
from scheduler.engine.questions.trial import Basis
from scheduler.engine.questions.what_if import MAX_WAITING, what_if
from scheduler.messages.stimuli import ObjectObserved
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod
from scheduler.testing.documents import node_json, pod_json
from scheduler.testing.fragments import affinity_json, pod_term
from scheduler.testing.objects import build
from tests import builders
from tests.engine.driver import Cluster
from tests.engine.questions.asking import DAEMON, OWNER, ask, asked, deployment, nodes_of


def test_a_pod_goes_where_the_engine_would_place_it_and_the_rest_of_the_equals_are_named() -> None:
    cluster = Cluster()
    for name, cpu in (("small", "1"), ("a", "4"), ("b", "4")):
        cluster.node(name, cpu=cpu)
    (placement,) = ask(cluster, workloads=asked(pod_json("p", cpu="2"))).placements
    assert placement.origin == ASKED
    assert placement.node in ("a", "b")
    assert (placement.allowed_count, set(placement.allowed)) == (2, {"a", "b"})


def test_another_seed_may_take_another_of_the_equals_and_a_choice_is_followed() -> None:
    cluster = Cluster()
    cluster.nodes_like(8, cpu="4")
    manifest = pod_json("p", cpu="1")
    taken = {ask(cluster, workloads=asked(manifest), seed=seed).placements[0].node for seed in range(20)}
    assert len(taken) > 1
    assert ask(cluster, workloads=asked(manifest), chosen={"default/p": "n5"}).placements[0].node == "n5"


def test_replicas_that_do_not_fit_say_why() -> None:
    cluster = Cluster()
    cluster.nodes_like(2, cpu="2")
    answer = ask(cluster, workloads=asked(deployment(1), replicas=6))
    assert (answer.placed, answer.pending, answer.nodes) == (4, 2, 2)
    last = answer.placements[-1]
    assert "Insufficient cpu" in last.message
    assert [(one.plugin, one.count) for one in last.refused] == [("NodeResourcesFit", 2)]
    assert answer.placements[1].after_chance, "the first one had two nodes to go to"


def test_a_deployment_spreads_like_pods_of_a_replica_set() -> None:
    """The default spread constraints read the selectors of ReplicaSets: without one the pods would not spread."""
    cluster = Cluster()
    for zone in "ab":
        cluster.node(f"n-{zone}", cpu="10", labels={"topology.kubernetes.io/zone": zone})
    answer = ask(cluster, workloads=asked(deployment(4, cpu="1m")))
    assert sorted(nodes_of(answer).values()) == ["n-a", "n-a", "n-b", "n-b"]


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_other_workloads_name_their_pods_as_their_controllers_do(kind: str) -> None:
    cluster = Cluster()
    cluster.nodes_like(1, cpu="4")
    answer = ask(cluster, workloads=asked({**deployment(2), "kind": kind}))
    assert list(nodes_of(answer)) == (["web-0", "web-1"] if kind == "StatefulSet" else ["web-1", "web-2"])


def test_a_job_starts_as_many_pods_as_its_parallelism() -> None:
    cluster = Cluster()
    cluster.nodes_like(1, cpu="4")
    template = deployment(1)["spec"]["template"]
    job = {"kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 3, "template": template}}
    assert ask(cluster, workloads=asked(job)).placed == 3


def test_the_pods_of_a_job_have_the_labels_that_the_job_controller_gives_them() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.node(name, cpu="10", labels={"topology.kubernetes.io/zone": name})
    apart = affinity_json(anti_required=[pod_term({"batch.kubernetes.io/job-name": "j"})])
    for affinity, placed in (({}, 3), (apart, 2)):
        template = deployment(1, affinity=affinity)["spec"]["template"]
        job = {"kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 3, "template": template}}
        assert ask(cluster, workloads=asked(job)).placed == placed


def test_the_most_that_fit_by_node_and_what_runs_out() -> None:
    cluster = Cluster()
    cluster.node("big", cpu="5")
    cluster.node("small", cpu="2")
    (room,) = ask(cluster, workloads=asked(deployment(0, "2")), finds_max=True).room
    assert (room.count, room.by_node, room.is_at_least) == (3, {"big": 2, "small": 1}, False)
    assert [(one.plugin, one.reasons) for one in room.runs_out] == [("NodeResourcesFit", ("Insufficient cpu",))]


def test_a_pod_pushes_out_less_important_ones_which_are_placed_again() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="2")
    cluster.node("n1", cpu="1")
    cluster.pod("low", cpu="2", node="n0", metadata=OWNER)
    answer = ask(cluster, workloads=asked(pod_json("high", cpu="2", priority=10)))
    high, low = answer.placements
    assert (high.node, high.victims) == ("n0", ("default/low",))
    assert (low.pod, low.origin, low.left_node, low.node) == ("default/low", PREEMPTED, "n0", "")
    assert "Insufficient cpu" in low.message


def test_a_preemptor_is_certain_unless_others_are_tried_before_its_victims_are_gone() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="2")
    cluster.node("n1", cpu="1")
    cluster.pod("low", cpu="2", node="n0")
    high = pod_json("high", cpu="2", priority=10)
    (alone,) = ask(cluster, workloads=asked(high)).placements
    assert (alone.node, alone.after_chance) == ("n0", False)
    answer = ask(cluster, workloads=asked(high, pod_json("beside", cpu="1", priority=10)))
    assert [(one.pod, one.node, one.after_chance) for one in answer.placements] == [
        ("default/high", "n0", True),
        ("default/beside", "n1", True),
    ]


def test_a_drained_node_s_pods_move_except_those_of_daemon_sets_and_bare_ones() -> None:
    cluster = Cluster()
    cluster.nodes_like(2, cpu="4")
    cluster.pod("web", cpu="1", node="n0", metadata=OWNER)
    cluster.pod("agent", cpu="1", node="n0", metadata=DAEMON)
    cluster.pod("bare", cpu="1", node="n0")
    answer = ask(cluster, Drain("n0"))
    (placement,) = answer.placements
    assert (placement.pod, placement.origin, placement.left_node, placement.node) == (
        "default/web",
        EVICTED,
        "n0",
        "n1",
    )
    assert {(one.pod, one.stays) for one in answer.left} == {("default/agent", True), ("default/bare", False)}


def test_two_drained_nodes_do_not_take_each_other_s_pods() -> None:
    cluster = Cluster()
    cluster.nodes_like(3, cpu="4")
    for number in range(2):
        cluster.pod(f"web{number}", cpu="1", node=f"n{number}", metadata=OWNER)
    assert set(nodes_of(ask(cluster, Drain("n0"), Drain("n1"))).values()) == {"n2"}


@pytest.mark.parametrize(
    "state", [{"deleted": "2026-01-01T00:00:00Z"}, {"status": {"phase": "Pending"}}], ids=["leaving", "not running"]
)
def test_budgets_keep_no_pod_that_is_being_deleted_or_does_not_run_yet(state: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.nodes_like(2, cpu="8")
    cluster.pod("db", cpu="1", node="n0", labels={"app": "db"}, metadata=OWNER, **state)
    cluster.show(builders.budget("db", {"app": "db"}, allowed=0))
    answer = ask(cluster, Drain("n0"))
    assert not [one for one in answer.left if one.stays]
    assert answer.budgets == ()
    assert answer.nodes == 2


def _with_ephemeral_volume(*, wait: bool) -> Cluster:
    """Two nodes; the pod on n0 has a volume of its own, which only n0 reaches."""
    cluster = Cluster()
    for number in range(2):
        cluster.node(f"n{number}", cpu="4", labels={"disk": f"n{number}"})
    cluster.show(builders.storage_class("fast", wait=wait))
    there = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["n0"]}]}
    cluster.show(builders.volume("pv", storage_class="fast", node_affinity=[there], phase="Bound"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "pod-web", "controller": True}
    cluster.show(builders.claim("web-scratch", storage_class="fast", volume="pv", owner=owner))
    template = {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}
    volume = {"name": "scratch", "ephemeral": template}
    cluster.pod("web", cpu="1", node="n0", volumes=[volume], metadata=OWNER)
    return cluster


def test_an_evicted_pod_s_ephemeral_volume_is_made_again_where_the_pod_goes() -> None:
    answer = ask(_with_ephemeral_volume(wait=True), Drain("n0"))
    assert [(one.message, one.node) for one in answer.placements] == [("", "n1")]


def test_an_evicted_pod_s_ephemeral_volume_of_an_immediate_class_stays_where_it_was() -> None:
    (placement,) = ask(_with_ephemeral_volume(wait=False), Drain("n0")).placements
    assert "node(s) didn't match PersistentVolume's node affinity" in placement.message


def test_a_waiting_pod_goes_to_a_node_that_is_added() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1", labels={"kubernetes.io/hostname": "n0"})
    cluster.pod("waits", cpu="1", labels={"app": "w"})
    cluster.pod("fills", cpu="1", node="n0")
    cluster.schedule()
    answer = ask(cluster, AddNodes("n0", 2))
    (placement,) = answer.placements
    assert answer.nodes_added == ("n0-new-1", "n0-new-2")
    assert (placement.origin, placement.allowed_count) == (WAITING, 2)
    assert placement.node in answer.nodes_added


def test_evicted_pods_are_placed_in_the_order_of_the_queue() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="4")
    cluster.node("n1", cpu="1")
    cluster.pod("less", cpu="1", priority=1, node="n0", metadata=OWNER)
    cluster.pod("more", cpu="1", priority=5, node="n0", metadata=OWNER)
    answer = ask(cluster, Drain("n0"))
    assert [(one.pod, one.node) for one in answer.placements] == [("default/more", "n1"), ("default/less", "")]


def test_a_node_that_goes_takes_its_pods_with_it_whatever_the_budgets_say() -> None:
    cluster = Cluster()
    cluster.nodes_like(2, cpu="4")
    cluster.pod("web", cpu="1", node="n0", labels={"app": "web"}, metadata=OWNER)
    cluster.show(builders.budget("web", {"app": "web"}, allowed=0))
    answer = ask(cluster, RemoveNode("n0"))
    assert (answer.nodes, nodes_of(answer)) == (1, {"web": "n1"})


def test_a_taint_with_no_execute_evicts_those_that_do_not_tolerate_it() -> None:
    cluster = Cluster()
    cluster.nodes_like(2, cpu="4")
    cluster.pod("web", cpu="1", node="n0", metadata=OWNER)
    cluster.pod("stays", cpu="1", node="n0", metadata=OWNER, tolerations=[{"operator": "Exists"}])
    assert nodes_of(ask(cluster, AddTaint("n0", "k", "NoExecute"))) == {"web": "n1"}


def test_labels_cordons_and_taints_decide_where_the_next_pod_goes() -> None:
    cluster = Cluster()
    cluster.nodes_like(3, cpu="4")
    picky = asked(pod_json("p", cpu="1", spec={"nodeSelector": {"disk": "ssd"}}))
    assert ask(cluster, workloads=picky).pending == 1
    assert nodes_of(ask(cluster, SetLabel("n1", "disk", "ssd"), workloads=picky)) == {"p": "n1"}
    plain = asked(pod_json("p", cpu="1"))
    closed = (Cordon("n0"), AddTaint("n1", "k", "NoSchedule", "v"))
    assert nodes_of(ask(cluster, *closed, workloads=plain)) == {"p": "n2"}
    assert ask(cluster, *closed, Uncordon("n0"), workloads=plain).placements[0].allowed_count == 2


def test_objects_come_and_go() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1")
    cluster.pod("there", cpu="1", node="n0")
    plain = asked(pod_json("p", cpu="1"))
    assert nodes_of(ask(cluster, RemovePod("default/there"), workloads=plain)) == {"p": "n0"}
    new = {"kind": "Node", **node_json("n9", cpu="2")}
    assert nodes_of(ask(cluster, PutObject(new), workloads=plain)) == {"p": "n9"}
    cluster.show(builders.budget("b", {"app": "x"}, allowed=0))
    assert ask(cluster, DeleteObject("PodDisruptionBudget", "b", "default"), workloads=plain).pending == 1


def test_an_answer_says_that_not_all_pods_that_wait_were_considered() -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="1", labels={"kubernetes.io/hostname": "n0"})
    for number in range(MAX_WAITING + 1):
        # By itself: the driver looks at all pods again after each of its steps.
        cluster.engine.handle(ObjectObserved(Kind.POD, build(Pod, pod_json(f"p{number}", cpu="1"))), cluster.now)
    answer = ask(cluster, AddNodes("n0"))
    assert (answer.placed, answer.pending) == (2, MAX_WAITING - 2)
    assert answer.notes == ("of the pods that wait only the first 5000 were considered",)


@pytest.mark.parametrize("uid", ["", "pod-w"])
def test_a_waiting_pod_in_whose_place_another_is_put_is_tried_in_its_new_form_alone(uid: str) -> None:
    cluster = Cluster()
    cluster.node("n0", cpu="2")
    cluster.pod("w", cpu="2")
    cluster.pod("v", cpu="1")
    new = {"kind": "Pod", **pod_json("w", cpu="1")}
    new["metadata"]["uid"] = uid
    answer = ask(cluster, PutObject({"kind": "Pod", **pod_json("w", cpu="100")}), PutObject(new))
    assert sorted((one.pod, one.origin, one.node) for one in answer.placements) == [
        ("default/v", WAITING, "n0"),
        ("default/w", ADDED, "n0"),
    ]


def test_another_configuration_decides_otherwise() -> None:
    cluster = Cluster()
    cluster.node("full", cpu="4")
    cluster.node("empty", cpu="4")
    cluster.pod("there", cpu="2", node="full")
    plain = asked(pod_json("p", cpu="1"))
    assert nodes_of(ask(cluster, workloads=plain)) == {"p": "empty"}
    packing = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "tandem-scheduler",
                "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}},
                    }
                ],
            }
        ],
    }
    basis = Basis(build_profiles(load(msgspec.json.encode(packing))))
    assert nodes_of(ask(cluster, workloads=plain, configuration="x", basis=basis)) == {"p": "full"}


def test_a_foreign_scheduler_s_pod_is_placed_by_a_profile_of_ours_and_says_so() -> None:
    cluster = Cluster()
    cluster.nodes_like(2, cpu="4")
    cluster.pod("web", cpu="1", node="n0", metadata=OWNER, scheduler="default-scheduler")
    (placement,) = ask(cluster, Drain("n0")).placements
    assert (placement.node, placement.by_profile) == ("n1", "tandem-scheduler")


def test_a_gated_pod_stays_gated() -> None:
    cluster = Cluster()
    cluster.nodes_like(1, cpu="4")
    answer = ask(cluster, workloads=asked(pod_json("p", spec={"schedulingGates": [{"name": "wait"}]})))
    assert answer.placements[0].message.startswith("held back by SchedulingGates")


def test_time_that_is_up_is_said_and_what_was_found_stays() -> None:
    cluster = Cluster()
    cluster.nodes_like(1, cpu="4")
    looks = iter([False, False, True])
    steps = what_if(
        cluster.engine, Question(asked(deployment(9, "1m"))), cluster.now, is_over=lambda: next(looks, True)
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer = end.value
            break
    assert (answer.placed, answer.bound, answer.not_tried) == (2, SECONDS, 7)


LOTS = {"allocatable": {"cpu": "lots"}}


@pytest.mark.parametrize(
    ("edits", "fields", "text"),
    [
        ((), {}, "neither pods nor edits"),
        ((Drain("no\x1b[2Jsuch"),), {}, r"node 'no\x1b[2Jsuch' is not known"),
        ((AddTaint("n0", "k", "Never"),), {}, "must be one of"),
        ((AddNodes("n0", 10**9),), {}, "1 to 1000"),
        ((AddNodes("n0", 600), AddNodes("n0", 600)), {}, "1 to 1000"),
        (
            (PutObject({"kind": "Node", "metadata": {"name": "n"}, "status": LOTS}),),
            {},
            "'n': 'lots' is not a quantity",
        ),
        ((PutObject(pod_json("p", cpu="lots", node="n0")),), {}, "'p': 'lots' is not a quantity"),
        ((PutObject(pod_json("p", cpu="lots")),), {}, "'p': 'lots' is not a quantity"),
        ((RemovePod("default/none"),), {}, "is on no node"),
        ((PutObject({"kind": "Secret"}),), {}, "decisions read no such objects"),
        ((PutObject({"kind": "Node", "metadata": {"name": "A B"}}),), {}, "must consist of"),
        ((PutObject({"kind": "Node", "metadata": 7}),), {}, "Node"),
        ((DeleteObject("Service", "none"),), {}, "is not known"),
        ((), {"workloads": asked({"kind": "Pod", "metadata": {"name": "\x07"}})}, "must consist of"),
        ((), {"workloads": asked({"kind": "Pod", "metadata": {"name": "x" * 300}})}, "must consist of"),
        ((), {"workloads": asked(deployment(1), replicas=10**6)}, "from 0 to 5000"),
        ((), {"workloads": asked(deployment(-1))}, "from 0 to 5000"),
        ((), {"workloads": asked(deployment(1, cpu="lots"))}, "is not a quantity"),
        ((), {"workloads": asked(deployment(1, priorityClassName="none"))}, "state spec.priority"),
        ((), {"workloads": asked({"kind": "Pod", "metadata": []})}, "metadata must be a mapping"),
        (
            (),
            {"workloads": asked({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": 3}})},
            "$.spec.containers`",
        ),
        ((), {"workloads": asked(*[pod_json("p")] * 101)}, "at most 100"),
    ],
)
def test_a_wrong_question_is_refused_with_its_reason(edits: Any, fields: dict[str, Any], text: str) -> None:
    cluster = Cluster()
    cluster.nodes_like(1, cpu="4")
    with pytest.raises(WrongQuestion) as error:
        ask(cluster, *edits, **fields)
    assert text in str(error.value)
    assert "\x1b" not in str(error.value) and "\x07" not in str(error.value)
