"""Which nodes hold which container image, and how large it is (docs/kube-scheduler/plugins.md §2.4).

An image's size is that of the node that brought its name first, until no node has it. Differs from kube-scheduler on
purpose: there, a node's view of how many nodes hold an image stays as it was when that node last changed; here it is
always the present number, as in a kube-scheduler that has just started.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from scheduler.cluster.forkable import ForkableDict
from scheduler.objects.node import Node


@dataclass(slots=True)
class ImageState:
    size_bytes: int
    rows: set[int] = field(default_factory=set)
    _array: npt.NDArray[np.int64] | None = None

    def copied(self) -> ImageState:
        return ImageState(self.size_bytes, set(self.rows))

    def row_array(self) -> npt.NDArray[np.int64]:
        """The rows that hold the image, int64, ascending."""
        if self._array is None:
            self._array = np.array(sorted(self.rows), dtype=np.int64)
        return self._array


class ImageIndex:
    __slots__ = ("_states", "version")

    def __init__(self) -> None:
        self._states: ForkableDict[str, ImageState] = ForkableDict()
        self.version = 0

    def get(self, name: str) -> ImageState | None:
        return self._states.get(name)

    def change(self, row: int, old: Node | None, new: Node | None) -> None:
        before = _sizes(old)
        after = _sizes(new)
        if before == after:
            return
        self.version += 1
        for name in before:
            state = self._states.writable(name, ImageState.copied)
            state.rows.discard(row)
            state._array = None
            if not state.rows:
                del self._states[name]
        for name, size in after.items():
            if name not in self._states:
                self._states[name] = ImageState(size)
            state = self._states.writable(name, ImageState.copied)
            state.rows.add(row)
            state._array = None

    def fork(self) -> ImageIndex:
        other = ImageIndex()
        other._states = self._states.fork()
        other.version = self.version
        return other


def _sizes(node: Node | None) -> dict[str, int]:
    """Image name to size; the first mention of a name in the node's list wins."""
    sizes: dict[str, int] = {}
    for image in node.status.images if node is not None else ():
        for name in image.names:
            sizes.setdefault(name, image.size_bytes)
    return sizes
