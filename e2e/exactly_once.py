"""Invariants after a crash, an outage or a failover: every pod is bound to one node, by one binding, with one event."""

from __future__ import annotations

from collections import Counter

from e2e.provider import Cluster
from e2e.room import Room, bindings, last_bound, most_pods_at_once, nodes_of_each_pod


def check_nothing_was_lost_or_doubled(
    room: Room, cluster: Cluster, *, pods: int, pods_per_node: int, seconds: float
) -> None:
    """Waits at most `seconds` until all `pods` are bound. Raises AssertionError, or NotInTime where some are not."""
    assert len(room.wait_bound(pods, seconds)) == pods
    assert all(len(nodes) == 1 for nodes in nodes_of_each_pod(room.pods.history).values())
    assert max(most_pods_at_once(room.pods).values()) <= pods_per_node
    # Events come after their bindings; when the last pod's has come, so have the others.
    room.wait_events(last_bound(room.pods.history), "Scheduled")
    events = Counter(
        event["regarding"]["name"] for event in room.events.state.values() if event["reason"] == "Scheduled"
    )
    assert max(events.values()) == 1, "a placement was reported twice"
    if cluster.controlplane is not None:
        answers = bindings(cluster.controlplane.audit(), room.name)
        assert {times for (_, status), times in answers.items() if status == 201} == {1}
        # A binding whose answer was cut off is sent again and meets its own success: such a pod has no 201.
        answered = {pod for pod, status in answers if status == 201}
        assert not [pod for pod, status in answers if status == 409 and pod in answered], "tried again once bound"
