"""Promise: pods that name Tandem get nodes they may run on, and run."""

from __future__ import annotations

from e2e import builders
from e2e.peer import KubeScheduler
from e2e.room import Room, most_pods_at_once, refusal
from e2e.subject import Scheduler


def test_the_pods_of_a_deployment_get_nodes_and_run(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(*(builders.node(f"n{i}") for i in range(5)))
    room.client.create(builders.deployment("web", room.name, replicas=20))
    placements = room.wait_running(20)
    assert len(set(placements.values())) == 5, "the replicas were not spread over all nodes"


def test_each_placement_is_reported_by_one_scheduled_event(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a"), builders.node("b"))
    room.add_pods(*(builders.pod(f"p{i}", room.name) for i in range(4)))
    for name, node in room.wait_bound(4).items():
        (event,) = room.wait_events(name, "Scheduled")
        assert event["note"] == f"Successfully assigned {room.name}/{name} to {node}"
        assert (event["type"], event["action"]) == ("Normal", "Binding")
        assert event["reportingController"] == scheduler.scheduler_name
        assert event["regarding"]["uid"] == room.pod(name)["metadata"]["uid"]


def test_a_job_runs_to_its_end(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a", cpu="1"))
    # Ten pods of half a CPU: each can start only when another one is over and its room counts as free again.
    room.client.create(builders.job("sums", room.name, completions=10, cpu="500m"))
    room.pods.wait_until(lambda state: sum(p["status"]["phase"] == "Succeeded" for p in state.values()) == 10, 60)


def test_resources_bound_how_many_pods_a_node_takes(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a", cpu="4"), builders.node("b", cpu="2"))
    room.add_pods(*(builders.pod(f"p{i}", room.name, cpu="1") for i in range(9)))
    room.pods.wait_until(lambda state: sum(refusal(p) is not None for p in state.values()) == 3, 20, "three refusals")
    room.wait_bound(6)
    assert most_pods_at_once(room.pods) == {"a": 4, "b": 2}


def test_room_that_becomes_free_is_used_at_once(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a", cpu="1"))
    room.add_pods(builders.pod("first", room.name, cpu="1"))
    room.wait_bound(1)
    room.add_pods(builders.pod("second", room.name, cpu="1"))
    room.wait_refused("second")
    room.client.delete("Pod", "first", room.name)
    room.wait_placed("second", "a")


def test_a_new_node_wakes_the_pods_that_waited_for_it(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("a", labels={"disk": "hdd"}))
    room.add_pods(builders.pod("picky", room.name, nodeSelector={"disk": "ssd"}))
    room.wait_refused("picky")
    room.add_nodes(builders.node("b", labels={"disk": "ssd"}))
    assert room.wait_bound(1) == {"picky": "b"}


def test_taints_keep_pods_away_unless_they_are_tolerated(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(builders.node("tainted", cpu="64", taints=[builders.taint("only")]), builders.node("plain"))
    toleration = {"key": "only", "operator": "Exists"}
    tolerant = [
        builders.pod(
            f"tolerant-{i}", room.name, nodeSelector={"kubernetes.io/hostname": "tainted"}, tolerations=[toleration]
        )
        for i in range(2)
    ]
    room.add_pods(*(builders.pod(f"p{i}", room.name) for i in range(4)), *tolerant)
    placements = room.wait_bound(6)
    assert {node for name, node in placements.items() if name.startswith("p")} == {"plain"}
    assert {node for name, node in placements.items() if name.startswith("tolerant")} == {"tainted"}


def test_selectors_and_node_affinity_choose_among_labels(room: Room, scheduler: Scheduler) -> None:
    room.add_nodes(*(builders.node(f"n{i}", labels={"zone": f"z{i % 3}", "size": str(i)}) for i in range(6)))
    larger = {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["3"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [larger]}}
    affinity = {"nodeAffinity": required}
    room.add_pods(
        builders.pod("by-selector", room.name, nodeSelector={"zone": "z2", "size": "5"}),
        builders.pod("by-affinity", room.name, nodeSelector={"zone": "z1"}, affinity=affinity),
    )
    assert room.wait_bound(2) == {"by-selector": "n5", "by-affinity": "n4"}


def test_another_schedulers_pods_count_and_are_left_alone(
    room: Room, scheduler: Scheduler, peer: KubeScheduler
) -> None:
    room.add_nodes(builders.node("a", cpu="4"))
    theirs = [builders.pod(f"theirs-{i}", room.name, cpu="1", scheduler="default-scheduler") for i in range(3)]
    room.add_pods(*theirs, builders.pod("unclaimed", room.name, scheduler="absent"))
    room.wait_bound(3)
    room.add_pods(*(builders.pod(f"ours-{i}", room.name, cpu="1") for i in range(3)))
    room.wait_bound(4)
    room.pods.wait_until(lambda state: sum(refusal(p) is not None for p in state.values()) == 2, 20, "two refusals")
    unclaimed = room.pod("unclaimed")
    assert "nodeName" not in unclaimed["spec"]
    assert refusal(unclaimed) is None
    assert room.events_about("unclaimed") == []
    for i in range(3):
        reporters = {event["reportingController"] for event in room.events_about(f"theirs-{i}")}
        assert reporters == {"default-scheduler"}
