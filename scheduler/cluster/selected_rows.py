"""Which nodes a label selector accepts, as one mask a selector: for the selectors that every decision asks about.

A mask is made when it is asked for first, and from then on only the rows of nodes that change are looked at. One that
was given away stays as it is: where its selector says otherwise of a node than before, there is another mask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.objects.node import Node
from scheduler.objects.selectors import Selector

Mask = npt.NDArray[np.bool_]

MAX_MASKS: Final = 64
"""Selectors that are kept; beyond, the first one asked for goes. Each profile has at most one."""


class SelectedRows:
    """The masks of a table. Rows without a node are accepted by no selector."""

    __slots__ = ("_masks",)

    def __init__(self) -> None:
        self._masks: dict[Selector, Mask] = {}

    def mask(self, selector: Selector, nodes: Sequence[Node | None], capacity: int) -> Mask:
        """Whether the selector accepts the node of each row: bool, ``capacity`` of them at least. Do not change it."""
        mask = self._masks.get(selector)
        if mask is not None and len(mask) >= capacity:
            return mask
        mask = np.zeros(capacity, np.bool_)
        for row, node in enumerate(nodes):
            mask[row] = node is not None and selector.matches(node.metadata.labels)
        self._masks.pop(selector, None)
        if len(self._masks) >= MAX_MASKS:
            del self._masks[next(iter(self._masks))]
        self._masks[selector] = mask
        return mask

    def put(self, row: int, labels: Mapping[str, str] | None) -> None:
        """The node of a row has these labels now; None: there is none."""
        for selector, mask in list(self._masks.items()) if self._masks else ():
            if row >= len(mask):
                del self._masks[selector]
            elif mask.item(row) != (is_accepted := labels is not None and selector.matches(labels)):
                changed = self._masks[selector] = mask.copy()
                changed[row] = is_accepted

    def fork(self) -> SelectedRows:
        """The same masks; neither side sees what the other changes."""
        return self._with(dict(self._masks))

    def taken(self, rows: npt.NDArray[np.int64]) -> SelectedRows:
        """The masks of these rows, as rows 0, 1, ..."""
        return self._with({selector: mask[rows] for selector, mask in self._masks.items()})

    def check(self, nodes: Sequence[Node | None]) -> bool:
        """Whether the masks are what the nodes say."""
        return all(
            bool(mask[row]) is (node is not None and selector.matches(node.metadata.labels))
            for selector, mask in self._masks.items()
            for row, node in enumerate(nodes[: len(mask)])
        )

    def _with(self, masks: dict[Selector, Mask]) -> SelectedRows:
        other = SelectedRows()
        other._masks = masks
        return other
