from __future__ import annotations

import pytest

from scheduler.objects.quantity import NANO, InvalidQuantity
from scheduler.objects.resource_names import is_extended_resource, is_scalar_resource
from scheduler.objects.resources import (
    ResourceVector,
    allocatable_of,
    node_info_requests_of,
    pod_requests,
    requests_of,
    score_requests_of,
)
from scheduler.testing.fragments import Json, container_json
from scheduler.testing.objects import node, pod

MI = 1024 * 1024
GPU = "example.com/gpu"


def status_of(name: str, actual: dict[str, str] | None, allocated: dict[str, str] | None = None) -> Json:
    reported: Json = {"name": name}
    if actual is not None:
        reported["resources"] = {"requests": actual}
    if allocated is not None:
        reported["allocatedResources"] = allocated
    return reported


def test_the_containers_of_a_pod_add_up() -> None:
    asked = requests_of(
        pod(containers=[container_json("a", cpu="1", memory="1Mi"), container_json("b", cpu="500m", memory="2Mi")])
    )
    assert asked == ResourceVector(milli_cpu=1500, memory=3 * MI)


def test_quantities_are_added_before_they_are_rounded() -> None:
    halves = pod(
        containers=[container_json("a", cpu="0.5m", memory="500m"), container_json("b", cpu="0.5m", memory="500m")]
    )
    assert requests_of(halves) == ResourceVector(milli_cpu=1, memory=1)


def test_an_init_container_counts_only_as_far_as_it_needs_more_than_the_rest() -> None:
    small = pod(cpu="2", init_containers=[container_json("i", cpu="1", memory="1Mi")])
    large = pod(cpu="2", init_containers=[container_json("i", cpu="3"), container_json("j", cpu="1")])
    assert requests_of(small) == ResourceVector(milli_cpu=2000, memory=MI)
    assert requests_of(large).milli_cpu == 3000


def test_a_sidecar_counts_for_the_whole_life_of_the_pod() -> None:
    sidecar = container_json("s", cpu="1", sidecar=True)
    assert requests_of(pod(cpu="2", init_containers=[sidecar])).milli_cpu == 3000


def test_an_init_container_runs_beside_the_sidecars_before_it_only() -> None:
    init, sidecar = container_json("i", cpu="5"), container_json("s", cpu="1", sidecar=True)
    assert requests_of(pod(cpu="1", init_containers=[sidecar, init])).milli_cpu == 6000
    assert requests_of(pod(cpu="1", init_containers=[init, sidecar])).milli_cpu == 5000


def test_overhead_is_added_even_to_resources_without_a_request() -> None:
    asked = requests_of(pod(cpu="1", spec={"overhead": {"cpu": "250m", "memory": "1Mi"}}))
    assert asked == ResourceVector(milli_cpu=1250, memory=MI)


def test_pod_level_requests_replace_the_sum_of_the_containers() -> None:
    asked = pod(
        cpu="1",
        memory="1Mi",
        requests={GPU: "2"},
        spec={"resources": {"requests": {"cpu": "3", GPU: "9"}}, "overhead": {"cpu": "1"}},
    )
    assert requests_of(asked) == ResourceVector(milli_cpu=4000, memory=MI, scalars={GPU: 2})


def test_the_fit_score_does_not_see_pod_level_requests() -> None:
    asked = pod(cpu="1", spec={"resources": {"requests": {"cpu": "3", "memory": "5Mi"}}})
    assert score_requests_of(asked) == ResourceVector(milli_cpu=1000, memory=200 * MI)


def test_scores_give_each_container_defaults_unless_it_says_nought() -> None:
    asked = pod(
        containers=[container_json("a"), container_json("b", cpu="0", memory="0")],
        init_containers=[container_json("i"), container_json("s", sidecar=True)],
    )
    assert requests_of(asked).is_zero
    assert score_requests_of(asked) == ResourceVector(milli_cpu=200, memory=400 * MI)
    assert node_info_requests_of(asked)[1] == (200, 400 * MI)


def test_a_pod_with_its_own_resources_gets_defaults_only_for_unstated_resources() -> None:
    asked = pod(
        containers=[container_json("a", memory="1Mi"), container_json("b")],
        spec={"resources": {"requests": {"hugepages-2Mi": "2Mi"}}},
    )
    assert node_info_requests_of(asked)[1] == (200, MI)


def test_overhead_counts_as_a_mention() -> None:
    asked = pod(spec={"resources": {"requests": {"cpu": "1"}}, "overhead": {"memory": "1Mi"}})
    assert node_info_requests_of(asked)[1] == (1000, MI)


def test_a_resize_in_place_counts_with_the_largest_of_wanted_granted_and_actual() -> None:
    resized = pod(
        cpu="2",
        memory="2Mi",
        status={"containerStatuses": [status_of("main", {"cpu": "1", "memory": "4Mi"}, {"cpu": "3", "memory": "1Mi"})]},
    )
    assert requests_of(resized) == ResourceVector(milli_cpu=2000, memory=2 * MI)
    assert node_info_requests_of(resized)[0] == ResourceVector(milli_cpu=3000, memory=4 * MI)


def test_a_resize_that_can_never_be_granted_does_not_count() -> None:
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    statuses = [status_of("main", {"cpu": "1"}, {"cpu": "1"})]
    refused = pod(cpu="64", status={"conditions": [pending], "containerStatuses": statuses})
    deferred = pod(cpu="64", status={"conditions": [pending | {"reason": "Deferred"}], "containerStatuses": statuses})
    assert node_info_requests_of(refused)[0].milli_cpu == 1000
    assert node_info_requests_of(deferred)[0].milli_cpu == 64_000


def test_a_status_without_resources_says_nothing() -> None:
    reported = pod(cpu="1", status={"containerStatuses": [status_of("main", None, {"cpu": "9"})]})
    assert node_info_requests_of(reported)[0].milli_cpu == 1000


def test_the_status_of_an_init_container_counts_for_a_sidecar_only() -> None:
    reported = pod(
        init_containers=[container_json("i", cpu="1"), container_json("s", cpu="1", sidecar=True)],
        status={"initContainerStatuses": [status_of("i", {"cpu": "9"}), status_of("s", {"cpu": "2"})]},
    )
    assert node_info_requests_of(reported)[0].milli_cpu == 2000


def test_the_status_of_the_pod_counts_for_pod_level_requests() -> None:
    reported = pod(
        cpu="1",
        spec={"resources": {"requests": {"cpu": "2"}}},
        status={"resources": {"requests": {"cpu": "3", "memory": "1Mi"}}, "allocatedResources": {"cpu": "1"}},
    )
    assert requests_of(reported).milli_cpu == 2000
    assert node_info_requests_of(reported)[0] == ResourceVector(milli_cpu=3000)


def test_exact_requests_keep_every_name_and_every_fraction() -> None:
    asked = pod_requests(pod(cpu="0.5m", requests={"storage": "1"}), use_status=False)
    assert asked == {"cpu": NANO // 2000, "storage": NANO}


def test_defaults_are_given_per_container() -> None:
    asked = pod(containers=[container_json("a"), container_json("b", cpu="1")])
    assert pod_requests(asked, use_status=False, defaults={"cpu": "100m"}) == {"cpu": NANO * 11 // 10}


def test_a_scalar_of_nought_is_kept_and_an_unknown_name_is_not() -> None:
    asked = requests_of(pod(requests={GPU: "0", "storage": "1Gi"}))
    assert asked == ResourceVector(scalars={GPU: 0})
    assert not asked.is_zero
    assert requests_of(pod(requests={"storage": "1Gi"})).is_zero


def test_a_node_offers_what_is_allocatable_never_its_capacity() -> None:
    offered = node(cpu="3900m", memory="1Gi", pods=10, allocatable={"ephemeral-storage": "1k", GPU: "4"})
    assert allocatable_of(offered) == ResourceVector(
        milli_cpu=3900, memory=1024 * MI, ephemeral_storage=1000, pods=10, scalars={GPU: 4}
    )
    bare = node(status={"allocatable": {}, "capacity": {"cpu": "8", "pods": "110"}})
    assert allocatable_of(bare) == ResourceVector()


def test_amounts_are_found_by_name() -> None:
    vector = ResourceVector(milli_cpu=1, memory=2, ephemeral_storage=3, pods=4, scalars={GPU: 5})
    names = ("cpu", "memory", "ephemeral-storage", "pods", GPU, "other")
    assert [vector.amount(name) for name in names] == [1, 2, 3, 4, 5, 0]


def test_equal_vectors_have_equal_keys_however_their_scalars_are_ordered() -> None:
    one, other = ResourceVector(scalars={"a.b/c": 1, "a.b/d": 2}), ResourceVector(scalars={"a.b/d": 2, "a.b/c": 1})
    assert one == other
    assert hash(one.key) == hash(other.key) and one.key == other.key


def test_a_quantity_that_is_none_is_an_error_of_its_own() -> None:
    with pytest.raises(InvalidQuantity):
        requests_of(pod(cpu="lots"))


@pytest.mark.parametrize(
    ("name", "extended", "scalar"),
    [
        ("example.com/gpu", True, True),
        ("hugepages-2Mi", False, True),
        ("attachable-volumes-csi-x", False, True),
        ("kubernetes.io/batch", False, True),
        ("cpu", False, False),
        ("storage", False, False),
        ("requests.example.com/gpu", False, False),
        ("example.com/a/b", False, False),
        ("Example.com/gpu", False, False),
        (f"example.com/{'a' * 64}", False, False),
    ],
)
def test_which_names_are_counted(name: str, extended: bool, scalar: bool) -> None:
    assert is_extended_resource(name) is extended
    assert is_scalar_resource(name) is scalar
