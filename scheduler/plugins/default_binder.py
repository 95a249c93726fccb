"""DefaultBinder: binds a pod by creating its Binding.

The Binding contains the pod's UID, so that the API server refuses it if another pod of the same name has replaced the
pod. The engine sends the writes, many at a time; the plugin only builds them. No arguments.
"""

from __future__ import annotations

from typing import Any

from scheduler.cluster.pod_info import PodInfo
from scheduler.framework.events import EventRegistration
from scheduler.framework.plugin import BindPlugin, Reads


class DefaultBinder(BindPlugin):
    """See docs/kube-scheduler/plugins.md §3.19."""

    name = "DefaultBinder"
    reads = Reads.NOTHING

    @staticmethod
    def binding(pod: PodInfo, node: str) -> dict[str, Any]:
        """The Binding to POST to the pod's ``binding`` subresource."""
        return {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        }

    def events(self) -> tuple[EventRegistration, ...]:
        return ()
