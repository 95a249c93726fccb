"""ImageLocality: prefers nodes that already hold the pod's container images.

An image counts with its size times the share of the nodes that hold it, so that a rare image does not attract all its
pods to one node. Up to 23 MiB in total score 0; 1000 MiB for each container make the full score. Images of containers,
init containers and image volumes count. An image without a tag is looked up as ``:latest``. No arguments.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from scheduler.cluster.image_index import ImageState
from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.view import View
from scheduler.framework.events import EventRegistration
from scheduler.framework.plugin import MAX_NODE_SCORE, FragmentReads, Reads, Rows, ScorePlugin, Scores, State
from scheduler.objects.pod import PodSpec

_MEBIBYTE = 1024 * 1024
_THRESHOLD_BYTES = 23 * _MEBIBYTE
_FULL_BYTES_PER_CONTAINER = 1000 * _MEBIBYTE


class ImageLocality(ScorePlugin):
    """See docs/kube-scheduler/plugins.md §3.10."""

    name = "ImageLocality"
    reads = Reads.NODE
    fragment_reads = FragmentReads.TEMPLATE
    counts_pods = False

    def fragment(self, pod: PodInfo, view: View) -> tuple[tuple[str, ...], int]:
        spec = pod.pod.spec
        return tuple(sorted(_image_names(spec))), _container_count(spec)

    def stamp(self, fragment: Hashable, view: View) -> Hashable:
        assert isinstance(fragment, tuple)
        return view.images.versions(fragment[0]), view.total_nodes

    def score(self, state: State, pod: PodInfo, view: View, rows: Rows) -> Scores:
        spec = pod.pod.spec
        size = view.table.size
        total = view.total_nodes
        known = [image for name in _image_names(spec) if (image := view.images.get(name)) is not None]
        held = np.zeros(size, np.int64)
        if not known:
            return held[rows]
        for image in known:
            holders = image.row_array()
            # A view that was copied earlier may have fewer rows than the index.
            held[holders[: np.searchsorted(holders, size)]] += _share(image, total)
        low = _THRESHOLD_BYTES
        high = _FULL_BYTES_PER_CONTAINER * _container_count(spec)
        counted = np.where(held < low, low, np.minimum(held, high))
        scores: Scores = MAX_NODE_SCORE * (counted - low) // (high - low)
        return scores[rows]

    def score_row(self, state: State, pod: PodInfo, view: View, row: int) -> int:
        spec = pod.pod.spec
        total = view.total_nodes
        held = 0
        for name in _image_names(spec):
            image = view.images.get(name)
            if image is not None and row in image.rows:
                held += _share(image, total)
        low = _THRESHOLD_BYTES
        high = _FULL_BYTES_PER_CONTAINER * _container_count(spec)
        counted = low if held < low else min(held, high)
        return MAX_NODE_SCORE * (counted - low) // (high - low)

    def events(self) -> tuple[EventRegistration, ...]:
        return ()


def _image_names(spec: PodSpec) -> list[str]:
    """The image names in the form in which nodes list them, with duplicates if several containers use an image."""
    names = [_canonical(container.image) for container in spec.init_containers]
    names += [_canonical(container.image) for container in spec.containers]
    names += [_canonical(volume.image.reference) for volume in spec.volumes if volume.image is not None]
    return names


def _container_count(spec: PodSpec) -> int:
    """The number of containers and init containers, without image volumes."""
    return len(spec.init_containers) + len(spec.containers)


def _canonical(name: str) -> str:
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _share(image: ImageState, total_nodes: int) -> int:
    """The image's size in bytes times the share of the nodes that hold it."""
    return int(float(image.size_bytes) * (len(image.rows) / total_nodes))
