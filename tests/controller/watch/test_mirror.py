"""The known objects of one kind, and the stimuli that watch events become."""

from __future__ import annotations

from typing import Any

from scheduler.controller.watch.mirror import Mirror
from scheduler.messages.stimuli import ObjectDeleted, ObjectObserved, Stimulus
from scheduler.objects.kinds import Kind
from scheduler.objects.pod import Pod
from scheduler.objects.resource_claims import ResourceClaim
from scheduler.objects.wire import DELETED, ListPage, WatchEvent
from scheduler.testing.documents import pod_json
from scheduler.testing.objects import build
from tests.device_documents import DRIVER, claim


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


def versions(name: str, *numbers: str, **fields: Any) -> list[Pod]:
    made = []
    for number in numbers:
        document = pod_json(name, **fields)
        document["metadata"] |= {"resourceVersion": number}
        made.append(build(Pod, document))
    return made


def test_the_end_of_another_pod_of_that_name_ends_the_known_one_as_it_was_seen_last() -> None:
    """What came between the two was missed: the known pod's room is free, and not that of the other."""
    mirror, stimuli = Mirror(Kind.POD), list[Stimulus]()
    (known,), (other,) = versions("a", "5", node="n"), versions("a", "9", node="m", uid="other")
    mirror.take_event(WatchEvent("ADDED", known), stimuli)
    mirror.take_event(WatchEvent(DELETED, other), stimuli)
    assert stimuli[1:] == [ObjectDeleted(Kind.POD, known, is_stale=True)]


def test_a_line_that_is_older_than_an_answer_does_not_make_the_answer_forgotten() -> None:
    """Else its object, if it is gone before a watch shows it in that version, would stay for ever."""
    mirror, stimuli = Mirror(Kind.POD), list[Stimulus]()
    first, second, third = versions("a", "5", "6", "7")
    mirror.take_event(WatchEvent("ADDED", first), stimuli)
    assert mirror.answered(third) == []
    mirror.take_event(WatchEvent("MODIFIED", second), stimuli)
    assert mirror.latest("default/a") is third


def test_where_the_state_went_back_what_is_listed_as_it_was_stays_and_what_was_not_known_is_new() -> None:
    mirror = Mirror(Kind.POD)
    (same,), (later,), (gone_before,) = versions("same", "5"), versions("later", "9"), versions("gone-before", "4")
    for page in (ListPage("9", "", (same, later)), ListPage("6", "", (same, gone_before))):
        mirror.begin_list()
        stimuli = [*mirror.take_page(page), *mirror.end_list()]
    assert stimuli == [ObjectObserved(Kind.POD, gone_before), ObjectDeleted(Kind.POD, later, is_stale=True)]


def test_a_version_of_thousands_of_digits_is_one_that_can_not_be_compared() -> None:
    """Its object is taken as it comes, and costs the others nothing."""
    mirror, stimuli = Mirror(Kind.POD), list[Stimulus]()
    shown = versions("a", "9" * 5000, "7")
    mirror.begin_list()
    stimuli += mirror.take_page(ListPage("9" * 5000, "", (shown[0],)))
    stimuli += mirror.end_list()
    mirror.take_event(WatchEvent("MODIFIED", shown[1]), stimuli)
    mirror.take_event(WatchEvent("MODIFIED", shown[0]), stimuli)
    assert [one.object for one in stimuli if isinstance(one, ObjectObserved)] == [shown[0], shown[1], shown[0]]


def test_of_a_claim_that_two_pages_of_a_list_show_the_later_page_counts() -> None:
    mirror = Mirror(Kind.RESOURCE_CLAIM)
    given = {"devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "n", "device": "gpu-0"}]}}
    pages = []
    for version, status in (("5", {"allocation": given}), ("6", {})):
        document = claim("one", "gpus")
        document["metadata"] |= {"resourceVersion": version}
        pages.append(build(ResourceClaim, document | {"status": status}))
    mirror.begin_list()
    for shown in pages:
        mirror.take_page(ListPage("9", "", (shown,)))
    assert mirror.end_list() == [ObjectObserved(Kind.RESOURCE_CLAIM, pages[1])]
    assert mirror.known["default/one"] is pages[1]


def test_a_claim_that_a_list_shows_with_other_devices_has_given_up_those_it_had() -> None:
    """Two claims may have had a device one after the other: it is free before the second one gets it."""
    mirror = Mirror(Kind.RESOURCE_CLAIM)

    def listed(version: str, one: str, two: str) -> list[Stimulus]:
        claims = []
        for name, device in (("one", one), ("two", two)):
            document = claim(name, "gpus")
            document["metadata"] |= {"resourceVersion": version}
            given = {"devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "n", "device": device}]}}
            claims.append(build(ResourceClaim, document | {"status": {"allocation": given}}))
        mirror.begin_list()
        mirror.take_page(ListPage(version, "", tuple(claims)))
        return mirror.end_list()

    listed("5", "gpu-0", "gpu-1")
    stimuli = listed("9", "gpu-1", "gpu-2")
    assert [type(one) for one in stimuli] == [ObjectDeleted, ObjectDeleted, ObjectObserved, ObjectObserved]
    stimuli = listed("12", "gpu-1", "gpu-2")
    assert [type(one) for one in stimuli] == [ObjectObserved, ObjectObserved], "with the devices that they had"
