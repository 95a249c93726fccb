"""DefaultBinder: binds a pod by creating its Binding.

The Binding names the pod with its UID, so that the API server refuses it where another pod of that name has taken its
place. The engine sends the write itself, many at a time; the plugin says what is written. No arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.framework.plugin import BindPlugin, Reads

if TYPE_CHECKING:
    from scheduler.cluster.pod_info import PodInfo
    from scheduler.framework.events import EventRegistration


class DefaultBinder(BindPlugin):
    """Reference plugins.md §3.19."""

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
