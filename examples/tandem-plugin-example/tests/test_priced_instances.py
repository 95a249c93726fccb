import msgspec
from tandem_plugin_example.priced_instances import INSTANCE_TYPE, PricedInstances

from scheduler.plugin import PodInfo
from scheduler.testing import Cluster, check_contract, namespace, node, pod, score_answers

NODES = [node("small", labels={INSTANCE_TYPE: "m.small"}), node("big", labels={INSTANCE_TYPE: "m.big"}), node("bare")]


def scores(**prices: str) -> dict[str, int] | None:
    labels = {f"price.example.com/m.{name}": value for name, value in prices.items()}
    cluster = Cluster(NODES, objects=[namespace("prices", labels=labels)])
    return score_answers(PricedInstances(), PodInfo(pod("p")), cluster.view())


def test_it_keeps_the_plugin_contract() -> None:
    check_contract(PricedInstances())
    priced = namespace("prices", labels={"price.example.com/m.small": "10", "price.example.com/m.big": "40"})
    check_contract(PricedInstances(), [Cluster(NODES, objects=[priced, namespace("other")])])


def test_the_cheapest_type_gets_the_most_and_a_type_without_a_price_nothing() -> None:
    assert scores(small="10", big="40") == {"small": 100, "big": 0, "bare": 0}
    assert scores(small="90", big="40") == {"small": 0, "big": 100, "bare": 0}


def test_without_prices_all_nodes_are_equally_good() -> None:
    assert scores() == {"small": 100, "big": 100, "bare": 100}


def test_what_is_no_whole_number_is_no_price() -> None:
    assert scores(small="cheap", big="40") == {"small": 100, "big": 100, "bare": 100}


def test_arguments_are_read_as_the_configuration_writes_them() -> None:
    assert msgspec.convert({"namespace": "costs"}, PricedInstances.Args).namespace == "costs"
