"""Tools for authors of plugins: small clusters to test a plugin on, and a check of the whole plugin contract.

from scheduler.testing import check_contract

def test_it_keeps_the_contract() -> None:
    check_contract(MyPlugin())
"""

from scheduler.testing.clusters import Cluster, usual_clusters
from scheduler.testing.contract import check_contract
from scheduler.testing.objects import namespace, node, pod
from scheduler.testing.questions import filter_answers, score_answers
from scheduler.testing.violations import ContractViolation

__all__ = [
    "Cluster",
    "ContractViolation",
    "check_contract",
    "filter_answers",
    "namespace",
    "node",
    "pod",
    "score_answers",
    "usual_clusters",
]
