from __future__ import annotations

from typing import Any

import pytest

from scheduler.cluster.cache import ClusterCache
from scheduler.plugins.image_locality import ImageLocality
from scheduler.testing.fragments import container_json
from scheduler.testing.objects import node
from tests.plugins.clusters import cluster, info, raw_scores

MEBIBYTE = 1024 * 1024


def test_a_large_image_on_one_of_four_nodes_counts_with_a_quarter_of_its_size() -> None:
    nodes = [node("has", images={"registry.test/app:v1": 500 * MEBIBYTE}), node("b"), node("c"), node("d")]
    assert raw_scores(ImageLocality(), info(image="registry.test/app:v1"), cluster(nodes)) == {
        "has": 10,
        "b": 0,
        "c": 0,
        "d": 0,
    }


@pytest.mark.parametrize(
    ("written", "listed", "found"),
    [
        ("app", "app:latest", True),
        ("registry:5000/app", "registry:5000/app:latest", True),
        ("registry:5000/app", "registry:5000/app", False),
        ("app@sha256:abc", "app@sha256:abc", True),
        ("app:v2", "app:v1", False),
    ],
)
def test_an_image_without_a_tag_is_looked_up_as_latest(written: str, listed: str, found: bool) -> None:
    view = cluster([node("a", images={listed: 900 * MEBIBYTE})])
    scores = raw_scores(ImageLocality(), info(image=written), view)
    assert scores is not None
    assert (scores["a"] > 0) is found


def test_images_of_init_containers_and_volumes_count_but_volumes_are_no_containers() -> None:
    images = dict.fromkeys(("main:1", "init:1", "data:1"), 400 * MEBIBYTE)
    view = cluster([node("a", images=images)])
    containers = [container_json("main", image="main:1")]
    init = [container_json("init", image="init:1")]
    volumes = [{"name": "v", "image": {"reference": "data:1"}}]

    def score(**fields: Any) -> int:
        scores = raw_scores(ImageLocality(), info(containers=containers, **fields), view)
        assert scores is not None
        return scores["a"]

    assert score() == 100 * (400 - 23) // (1000 - 23)
    assert score(init_containers=init) == 100 * (800 - 23) // (2000 - 23)
    assert score(volumes=volumes) == 100 * (800 - 23) // (1000 - 23)


def test_an_image_used_twice_counts_twice_and_the_sum_is_capped() -> None:
    view = cluster([node("a", images={"main:1": 3000 * MEBIBYTE})])
    twice = info(containers=[container_json("x", image="main:1"), container_json("y", image="main:1")])
    assert raw_scores(ImageLocality(), twice, view) == {"a": 100}


def test_a_node_that_gets_an_image_changes_the_score_of_the_nodes_that_have_it() -> None:
    with_image = {"main:1": 500 * MEBIBYTE}
    cache = ClusterCache()
    for each in (node("a", images=with_image), node("b")):
        cache.observe_node(each)
    plugin, pod = ImageLocality(), info(image="main:1")
    assert raw_scores(plugin, pod, cache.view) == {"a": 100 * (250 - 23) // (1000 - 23), "b": 0}
    cache.observe_node(node("b", images=with_image))
    score = 100 * (500 - 23) // (1000 - 23)
    assert raw_scores(plugin, pod, cache.view) == {"a": score, "b": score}


def test_images_below_the_threshold_count_for_nothing() -> None:
    view = cluster([node("a", images={"main:1": 23 * MEBIBYTE})])
    assert raw_scores(ImageLocality(), info(image="main:1"), view) == {"a": 0}


def test_pods_of_the_same_images_are_one_class_and_a_new_image_makes_old_answers_stale() -> None:
    view = cluster([node("a")])
    plugin = ImageLocality()
    one, other = info("x", image="a:1"), info("y", image="a:1")
    fragment = plugin.fragment(one, view)
    assert fragment == plugin.fragment(other, view) != plugin.fragment(info("z", image="a:2"), view)
    before = plugin.stamp(fragment, view)
    view.images.change(0, None, node("a", images={"a:1": 5}))
    assert plugin.stamp(fragment, view) != before
