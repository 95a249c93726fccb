"""What a version of a pod takes over from the version before."""

from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.objects.pod import Pod
from scheduler.testing.documents import pod_json
from scheduler.testing.objects import build


def wanting(*names: str, labels: dict[str, str] | None = None, selector: dict[str, str] | None = None) -> Pod:
    """A pod whose node affinity has 100 terms for each of these names."""
    terms: list[dict[str, Any]] = [
        {"matchExpressions": [{"key": "name", "operator": "In", "values": [f"{name}-{number}"]}]}
        for name in names
        for number in range(100)
    ]
    document = pod_json("a", labels=labels or {})
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    document["spec"] |= {"affinity": {"nodeAffinity": required}, "nodeSelector": selector or {}}
    return build(Pod, document)


def test_a_long_affinity_that_has_not_changed_is_not_parsed_again() -> None:
    old, new = PodInfo(wanting("x")), PodInfo(wanting("x", labels={"app": "b"}))
    old.parse_ahead(None)
    new.parse_ahead(old)
    assert new.required_node_affinity is old.required_node_affinity


def test_a_long_affinity_that_has_changed_is_the_new_one() -> None:
    old, tightened = PodInfo(wanting("x", "y")), PodInfo(wanting("x"))
    old.parse_ahead(None)
    tightened.parse_ahead(old)
    assert old.required_node_affinity.matches({"name": "y-1"}, "n")
    assert not tightened.required_node_affinity.matches({"name": "y-1"}, "n")


def test_a_node_selector_that_has_changed_is_the_new_one() -> None:
    old, tightened = PodInfo(wanting("x")), PodInfo(wanting("x", selector={"disk": "ssd"}))
    old.parse_ahead(None)
    tightened.parse_ahead(old)
    assert old.required_node_affinity.matches({"name": "x-1"}, "n")
    assert not tightened.required_node_affinity.matches({"name": "x-1"}, "n")
