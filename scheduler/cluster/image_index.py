"""Which nodes hold which container image, and how large it is (docs/kube-scheduler/plugins.md §2.4).

An image's size is that of the node that brought its name first, until no node has it. Differs from kube-scheduler on
purpose: there, a node's view of how many nodes hold an image stays as it was when that node last changed; here it is
always the present number, as in a kube-scheduler that has just started.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from scheduler.cluster.forkable import ForkableDict
from scheduler.objects.node import Node


class ImageState(Struct):
    """One image: its size, as of the node that brought its name first, and the rows that hold it."""

    size_bytes: int
    rows: set[int] = field(default_factory=set)
    version: int = 0
    """The index's version when this was last changed."""
    _array: npt.NDArray[np.int64] | None = None
    _moved: set[int] = field(default_factory=set)
    """Rows that came or went since ``_array`` was made."""

    def copied(self) -> ImageState:
        return ImageState(self.size_bytes, set(self.rows), self.version, self._array, set(self._moved))

    def put(self, row: int, is_held: bool, version: int) -> None:
        """Note that the row holds the image now, or no longer."""
        if is_held:
            self.rows.add(row)
        else:
            self.rows.discard(row)
        self.version = version
        if self._array is not None:
            self._moved.add(row)

    def row_array(self) -> npt.NDArray[np.int64]:
        """The rows that hold the image, int64, ascending. Made from the one before, where there is one: sorting the
        rows of 100,000 nodes takes 20 ms."""
        if self._array is None:
            self._array = np.array(sorted(self.rows), dtype=np.int64)
        elif self._moved:
            moved = np.array(sorted(self._moved), dtype=np.int64)
            stayed = np.setdiff1d(self._array, moved, assume_unique=True)
            came = moved[[row in self.rows for row in moved.tolist()]]
            self._array = np.insert(stayed, np.searchsorted(stayed, came), came)
            self._moved.clear()
        return self._array


class ImageIndex:
    """The container images on the nodes: which rows hold each, and its size."""

    __slots__ = ("_states", "version")

    def __init__(self) -> None:
        self._states: ForkableDict[str, ImageState] = ForkableDict()
        self.version = 0

    def get(self, name: str) -> ImageState | None:
        return self._states.get(name)

    def versions(self, names: Iterable[str]) -> tuple[int, ...]:
        """A version for each of these images: while it is equal, the same nodes hold the image, and its size is the
        same. 0: no node has it."""
        found = map(self._states.get, names)
        return tuple([0 if state is None else state.version for state in found])

    def change(self, row: int, old: Node | None, new: Node | None) -> None:
        """Note that the row has another version of its node, a node, or none any more."""
        if (old.status.images if old is not None else ()) == (new.status.images if new is not None else ()):
            return
        before = _sizes(old)
        after = _sizes(new)
        if before == after:
            return
        self.version += 1
        for name in before:
            if name in after and len(self._states[name].rows) > 1:
                continue  # Others hold it, too: neither the rows change nor the size.
            state = self._states.writable(name, ImageState.copied)
            state.put(row, False, self.version)
            if not state.rows:
                del self._states[name]
        for name, size in after.items():
            known = self._states.get(name)
            if known is not None and row in known.rows:
                continue
            if known is None:
                self._states[name] = ImageState(size)
            self._states.writable(name, ImageState.copied).put(row, True, self.version)

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
