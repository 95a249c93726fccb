"""PricedInstances: of the nodes that fit, those of the cheaper instance type, by prices that can change at any time.

The prices are the labels of one Namespace, which the scheduler watches: ``price.example.com/TYPE: "96"``, whole numbers
of any unit. A node's type is its label ``node.kubernetes.io/instance-type``; a type without a price counts as the
dearest.

Arguments: ``namespace`` (default ``prices``).
"""

from __future__ import annotations

import msgspec
import numpy as np

from scheduler.plugin import MAX_NODE_SCORE, Kind, NormalizePlugin, PodInfo, Reads, Rows, Scores, State, View

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
PRICE = "price.example.com/"


class PricedInstancesArgs(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str = "prices"


class PricedInstances(NormalizePlugin):
    name = "PricedInstances"
    Args = PricedInstancesArgs
    reads = Reads.NODE

    def __init__(self, args: PricedInstancesArgs | None = None) -> None:
        super().__init__(args or PricedInstancesArgs())

    def fragment(self, pod: PodInfo, view: View) -> int:
        return 0  # the answers depend on nothing of the pod

    def stamp(self, fragment: int, view: View) -> int:
        return view.version(Kind.NAMESPACE)  # other prices make the answers of before stale

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        types = view.table.label_values(INSTANCE_TYPE)
        stated = self._prices(view)
        prices = np.full(len(types), max(stated.values(), default=0), np.int64)
        for name, price in stated.items():
            if found := types.find(name):
                prices[found] = price
        return prices[view.table.label(INSTANCE_TYPE)[rows]]

    def normalize(self, state: State, scores: Scores, view: View, rows: Rows) -> Scores:
        low, high = int(scores.min()), int(scores.max())
        if low == high:
            return np.full(len(scores), MAX_NODE_SCORE, np.int64)
        return (high - scores) * MAX_NODE_SCORE // (high - low)

    def _prices(self, view: View) -> dict[str, int]:
        namespace = view.get(Kind.NAMESPACE, self.args.namespace)
        labels = namespace.metadata.labels if namespace is not None else {}
        return {
            key.removeprefix(PRICE): int(value)
            for key, value in labels.items()
            if key.startswith(PRICE) and value.isascii() and value.isdecimal() and len(value) < 12
        }
