"""Equal parts of pods and nodes are stored once, and no value that is read changes by that."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.pod_template import template_key
from scheduler.objects.kinds import Kind, decode
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.resources import node_info_requests_of
from scheduler.objects.sharing import MAX_PART_BYTES, Sharing
from scheduler.testing.documents import node_json, pod_json
from scheduler.testing.fragments import container_json
from scheduler.testing.objects import pod


def decoded(name: str, **fields: Any) -> Pod:
    read = decode(Kind.POD, msgspec.json.encode(pod_json(name, **fields)))
    assert isinstance(read, Pod)
    return read


def test_pods_of_one_template_share_all_but_what_is_their_own() -> None:
    sharing = Sharing()
    fields = {"labels": {"app": "web"}, "cpu": "1", "tolerations": ["a=b:NoSchedule"], "claims": ["data"]}
    one, other = decoded("a", node="n1", **fields), decoded("b", node="n2", **fields)
    sharing.share(one)
    sharing.share(other)
    assert one.spec.containers is other.spec.containers
    assert one.spec.tolerations is other.spec.tolerations
    assert one.spec.volumes is other.spec.volumes
    assert one.metadata.labels is other.metadata.labels
    assert (one.name, one.node_name) == ("a", "n1")
    assert (other.name, other.node_name) == ("b", "n2")


def test_what_differs_is_not_shared() -> None:
    sharing = Sharing()
    one, other = decoded("a", cpu="1"), decoded("b", cpu="1000m")
    sharing.share(one)
    sharing.share(other)
    assert one == decoded("a", cpu="1")
    assert other == decoded("b", cpu="1000m")


VERSIONS = st.fixed_dictionaries(
    {
        "labels": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
        "cpu": st.sampled_from(("1", "1000m", "2")),
        "node": st.sampled_from(("", "n1", "n2")),
        "priority": st.sampled_from((None, 0, 5)),
        "claims": st.lists(st.sampled_from(("c", "d")), max_size=2),
        "node_selector": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
        "gates": st.lists(st.just("g"), max_size=1),
        "started": st.sampled_from((None, "2026-01-01T00:00:00Z")),
    }
)


@given(st.lists(VERSIONS, max_size=8), st.sampled_from((0, 400, 2**20)))
def test_sharing_changes_no_value_however_little_it_remembers(many: list[dict[str, Any]], max_bytes: int) -> None:
    sharing = Sharing(max_bytes)
    for number, fields in enumerate(many):
        read = decoded(f"p{number}", **fields)
        sharing.share(read)
        assert read == decoded(f"p{number}", **fields)


@given(st.lists(VERSIONS, max_size=8), st.sampled_from((0, 400, 2**20)))
def test_sharing_with_the_version_before_changes_no_value_either(many: list[dict[str, Any]], max_bytes: int) -> None:
    sharing, known = Sharing(max_bytes), None
    for fields in many:
        read = decoded("p", **fields)
        sharing.share(read, known)
        assert read == decoded("p", **fields)
        known = read


def test_an_update_of_the_status_leaves_the_pod_all_the_parts_of_its_version_before() -> None:
    """However little is remembered: they are compared with that version."""
    sharing = Sharing(max_bytes=0)
    fields: dict[str, Any] = {"labels": {"app": "web"}, "cpu": "1", "node": "n1", "claims": ["data"]}
    reports = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    before = decoded("a", **fields, status=reports)
    sharing.share(before)
    after = decoded("a", **fields, status={**reports, "phase": "Running"})
    sharing.share(after, before)
    assert after.spec is before.spec
    assert after.metadata.labels is before.metadata.labels
    assert after.status.container_statuses is before.status.container_statuses
    assert after.status.phase == "Running"


def test_volumes_without_a_source_that_is_read_are_left_out() -> None:
    volumes = [
        {"name": "kube-api-access-x7x2k", "projected": {"sources": []}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "emptyDir": {}},
    ]
    read = decoded("a", volumes=volumes)
    Sharing().share(read)
    assert [volume.name for volume in read.spec.volumes] == ["data"]


def test_of_conditions_only_the_status_stays_but_where_more_is_read() -> None:
    time = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": "Ready", "status": "False", "reason": "NotYet", "message": "long", "lastTransitionTime": time},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": time},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "lastTransitionTime": time},
    ]
    read = decoded("a", status={"conditions": conditions})
    before = read.status.conditions
    Sharing().share(read)
    ready, *others = read.status.conditions
    assert (ready.type, ready.status, ready.reason, ready.message) == ("Ready", "False", "", "")
    assert ready.last_transition_time is None
    assert tuple(others) == before[1:]


def test_nodes_share_images() -> None:
    sharing = Sharing()
    images = [{"names": ["registry.test/app:v1"], "sizeBytes": 1000}]
    one, other = [decode(Kind.NODE, msgspec.json.encode(node_json(name, status={"images": images}))) for name in "ab"]
    assert isinstance(one, Node)
    assert isinstance(other, Node)
    sharing.share(one)
    sharing.share(other)
    assert one.status.images[0] is other.status.images[0]
    assert one.name != other.name


def test_what_is_remembered_is_bounded() -> None:
    sharing = Sharing(max_bytes=10_000)
    for number in range(1000):
        sharing.share(decoded(f"p{number}", labels={"unique": f"{number}"}, cpu=f"{number + 1}m"))
    assert len(sharing) < 200
    long = decoded("long", labels={"x": "y" * MAX_PART_BYTES})
    before = len(sharing)
    sharing.share(long)
    assert long.labels == {"x": "y" * MAX_PART_BYTES}
    assert len(sharing) <= before + 3


def test_names_of_nodes_are_stored_once_and_those_that_are_gone_not_for_ever() -> None:
    sharing = Sharing(max_texts=20)
    one, other = decoded("a", node="n1"), decoded("b", node="n1")
    sharing.share(one)
    sharing.share(other)
    assert one.node_name is other.node_name
    parts = len(sharing)
    for number in range(1000):
        sharing.share(decoded(f"p{number}", node=f"n{number}"))
    assert len(sharing) <= parts + 24


def test_a_pod_whose_kubelet_reports_other_resources_is_charged_by_them_beside_one_that_shares_its_spec() -> None:
    sharing = Sharing()
    containers = [container_json("main", cpu="1")]

    def reporting(name: str, cpu: str, **status: Any) -> Pod:
        reported = {"name": "main", "resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
        status = {"containerStatuses": [reported], **status}
        read = decoded(name, containers=containers, node="n", status=status)
        sharing.share(read)
        return read

    infeasible = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    plain, same = reporting("plain", "1"), reporting("same", "1")
    larger, smaller = reporting("larger", "3"), reporting("smaller", "500m")
    refused = reporting("refused", "500m", conditions=infeasible)
    again = reporting("again", "500m")
    charged = [node_info_requests_of(each)[0].milli_cpu for each in (plain, same, larger, smaller, refused, again)]
    assert charged == [1000, 1000, 3000, 1000, 500, 1000]
    assert node_info_requests_of(pod("bare", cpu="1"))[0].milli_cpu == 1000


def test_pods_that_wait_have_one_spec_and_one_key_of_their_template() -> None:
    sharing = Sharing()
    volumes = [{"name": "kube-api-access-x7x2k", "projected": {"sources": []}}]
    waiting = [decoded(name, labels={"app": "web"}, cpu="1", volumes=volumes) for name in "abc"]
    placed = decoded("d", labels={"app": "web"}, cpu="1", node="n1")
    for one in (*waiting, placed):
        sharing.share(one)
    assert len({id(one.spec) for one in waiting}) == 1
    assert placed.spec.node_name == "n1"
    assert waiting[0].spec.node_name == ""
    other = decoded("e", labels={"app": "db"}, cpu="1")
    sharing.share(other)
    keys = [template_key(PodInfo(one)) for one in (*waiting, other, waiting[0])]
    assert keys[0] is keys[1] is keys[2]
    assert keys[3] != keys[0] == keys[4]
