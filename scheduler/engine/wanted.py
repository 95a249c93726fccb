"""Which pending pods a reader of the queue's page asks for."""

from __future__ import annotations

from msgspec import Struct

from scheduler.queue.queued_pod import QueuedPod


class Wanted(Struct, frozen=True):
    """Which pending pods are asked for; "" stands for all."""

    namespace: str = ""
    profile: str = ""
    plugin: str = ""
    """A plugin that rejected the pod, or holds it back."""

    @property
    def is_everything(self) -> bool:
        """Whether no pod is left out."""
        return not (self.namespace or self.profile or self.plugin)

    def includes(self, record: QueuedPod) -> bool:
        if self.namespace and record.info.namespace != self.namespace:
            return False
        if self.profile and record.profile != self.profile:
            return False
        return not self.plugin or self.plugin == record.gating_plugin or self.plugin in record.rejectors


EVERY_POD = Wanted()
