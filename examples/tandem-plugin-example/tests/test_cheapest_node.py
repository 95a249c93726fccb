from tandem_plugin_example.cheapest_node import CheapestNode, CheapestNodeArgs

from scheduler.plugin import PodInfo
from scheduler.testing import Cluster, check_contract, node, pod, score_answers

PRICE = "example.com/price"
NODES = [
    node("cheap", labels={PRICE: "10"}),
    node("fair", labels={PRICE: "60"}),
    node("dear", labels={PRICE: "110"}),
    node("unknown", labels={PRICE: "ask"}),
]


def scores(plugin: CheapestNode, nodes: list) -> dict[str, int] | None:
    return score_answers(plugin, PodInfo(pod("p")), Cluster(nodes).view())


def test_it_keeps_the_plugin_contract() -> None:
    check_contract(CheapestNode())
    check_contract(CheapestNode(), [Cluster(NODES)])


def test_the_cheapest_node_gets_the_most_and_the_dearest_nothing() -> None:
    assert scores(CheapestNode(), NODES[:3]) == {"cheap": 100, "fair": 50, "dear": 0}


def test_a_node_without_a_price_costs_the_default() -> None:
    plugin = CheapestNode(CheapestNodeArgs(default_price=60))
    assert scores(plugin, NODES) == {"cheap": 100, "fair": 50, "dear": 0, "unknown": 50}


def test_nodes_of_one_price_are_equally_good() -> None:
    assert scores(CheapestNode(), [node("a"), node("b")]) == {"a": 100, "b": 100}


def test_a_negative_default_price_is_refused() -> None:
    assert CheapestNode.validate_args(CheapestNodeArgs(default_price=-1), "args") == (
        ("args.defaultPrice", "must be between 0 and 1000000000000"),
    )
