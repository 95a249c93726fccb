"""The known objects of one kind, and the stimuli that watch events become."""

from __future__ import annotations

from scheduler.controller.watch.mirror import Mirror
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod
from scheduler.objects.wire import DELETED, WatchEvent
from scheduler.testing.documents import pod_json
from scheduler.testing.objects import build


def test_the_last_state_of_a_deleted_pod_brings_no_second_copy_of_what_has_not_changed() -> None:
    """What is remembered by such a part is found again, and is not remembered once more for each deletion."""
    mirror, stimuli = Mirror(Kind.POD), list[Stimulus]()
    document = pod_json("a", requests={"cpu": "1"})
    document["status"] = {"phase": "Running", "containerStatuses": [{"name": "c"}]}
    mirror.take_event(WatchEvent("ADDED", build(Pod, document)), stimuli)
    document["metadata"] |= {"resourceVersion": "9", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    mirror.take_event(WatchEvent(DELETED, build(Pod, document)), stimuli)
    shown, gone = stimuli
    assert isinstance(shown, ObjectObserved) and isinstance(gone, ObjectDeleted) and not gone.is_stale
    running, ended = shown.object, gone.object
    assert isinstance(running, Pod) and isinstance(ended, Pod) and ended.is_terminating
    assert ended.spec.containers is running.spec.containers
    assert ended.status.container_statuses is running.status.container_statuses
