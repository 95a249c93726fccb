"""CheapestNode: of the nodes that fit, the cheaper the better.

A node's price is the value of a label, a whole number of any unit; nodes without it cost ``defaultPrice``.

Arguments: ``label`` (default ``example.com/price``), ``defaultPrice`` (default 1000).
"""

from __future__ import annotations

import msgspec
import numpy as np

from scheduler.plugin import MAX_NODE_SCORE, NormalizePlugin, PodInfo, Reads, Rows, Scores, State, View

HIGHEST_PRICE = 10**12


class CheapestNodeArgs(msgspec.Struct, frozen=True, rename="camel"):
    label: str = "example.com/price"
    default_price: int = 1000


class CheapestNode(NormalizePlugin):
    """In vector form: all rows are answered at once, by one look-up table from label values to prices."""

    name = "CheapestNode"
    Args = CheapestNodeArgs
    reads = Reads.NODE

    def __init__(self, args: CheapestNodeArgs | None = None) -> None:
        super().__init__(args or CheapestNodeArgs())

    @classmethod
    def validate_args(cls, args: CheapestNodeArgs, path: str) -> tuple[tuple[str, str], ...]:
        if not 0 <= args.default_price <= HIGHEST_PRICE:
            return ((f"{path}.defaultPrice", f"must be between 0 and {HIGHEST_PRICE}"),)
        return ()

    def fragment(self, pod: PodInfo, view: View) -> int:
        return 0  # the answers depend on nothing of the pod: all pods are alike

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        ids = view.table.label(self.args.label)[rows]
        values = view.table.label_values(self.args.label)
        prices = np.array([self._price(values.number(one)) for one in range(len(values))], np.int64)
        return prices[ids]

    def score_row(self, state: State, pod: PodInfo, view: View, row: int) -> int:
        one = view.table.label(self.args.label).item(row)
        return self._price(view.table.label_values(self.args.label).number(one))

    def normalize(self, state: State, scores: Scores, view: View, rows: Rows) -> Scores:
        low, high = int(scores.min()), int(scores.max())
        if low == high:
            return np.full(len(scores), MAX_NODE_SCORE, np.int64)
        return (high - scores) * MAX_NODE_SCORE // (high - low)

    def _price(self, stated: int | None) -> int:
        price: int = self.args.default_price if stated is None else stated
        return min(max(price, 0), HIGHEST_PRICE)
