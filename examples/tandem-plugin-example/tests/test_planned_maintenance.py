from tandem_plugin_example.planned_maintenance import INTERRUPTIBLE, MAINTENANCE, MARK, PlannedMaintenance

from scheduler.plugin import PodInfo
from scheduler.testing import Cluster, check_contract, filter_answers, node, pod

NODES = [node("quiet"), node("marked", labels={MARK: "tonight"}), node("finished", labels={MARK: "done"})]
PATIENT = pod("patient", labels={INTERRUPTIBLE: "true"})


def refused(waiting: PodInfo) -> dict:
    return filter_answers(PlannedMaintenance(), waiting, Cluster(NODES).view())


def test_it_keeps_the_plugin_contract() -> None:
    check_contract(PlannedMaintenance())
    check_contract(PlannedMaintenance(), [Cluster(NODES, pending=[pod("p"), PATIENT])])


def test_marked_nodes_are_refused_until_the_maintenance_is_done() -> None:
    assert refused(PodInfo(pod("p"))) == {"marked": MAINTENANCE}


def test_pods_that_may_be_interrupted_go_there_all_the_same() -> None:
    assert refused(PodInfo(PATIENT)) == {}
