"""Which nodes hold which container image, and how large it is (reference plugins.md §2.4).

An image's size is that of the node that brought its name first, until no node has it. Differs from kube-scheduler on
purpose: there, a node's view of how many nodes hold an image stays as it was when that node last changed; here it is
always the present number, as in a kube-scheduler that has just started.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from scheduler.objects.node import Node


@dataclass(slots=True)
class ImageState:
    size_bytes: int
    rows: set[int] = field(default_factory=set)
    epoch: int = 0
    """Since when only the index of this epoch holds the state; an older one is shared with a copy."""
    _array: npt.NDArray[np.int64] | None = None

    def row_array(self) -> npt.NDArray[np.int64]:
        """The rows that hold the image, int64, ascending."""
        if self._array is None:
            self._array = np.array(sorted(self.rows), dtype=np.int64)
        return self._array


class ImageIndex:
    __slots__ = ("_epoch", "_states", "version")

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}
        self._epoch = 0
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
            state = self._own(name)
            state.rows.discard(row)
            state._array = None
            if not state.rows:
                del self._states[name]
        for name, size in after.items():
            if name not in self._states:
                self._states[name] = ImageState(size, epoch=self._epoch)
            state = self._own(name)
            state.rows.add(row)
            state._array = None

    def copy(self) -> ImageIndex:
        """To be kept, and only asked, while this one goes on changing."""
        other = ImageIndex()
        other._states = dict(self._states)
        other.version = self.version
        # What exists is shared from now on: it is copied before it is changed.
        self._epoch += 1
        return other

    def _own(self, name: str) -> ImageState:
        """The state of an image, for changing it."""
        state = self._states[name]
        if state.epoch != self._epoch:
            state = self._states[name] = ImageState(state.size_bytes, set(state.rows), self._epoch)
        return state


def _sizes(node: Node | None) -> dict[str, int]:
    """Image name to size; the first mention of a name in the node's list wins."""
    sizes: dict[str, int] = {}
    for image in node.status.images if node is not None else ():
        for name in image.names:
            sizes.setdefault(name, image.size_bytes)
    return sizes
