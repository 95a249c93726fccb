"""PreEnqueue: whether a pod may be queued at all (docs/kube-scheduler/queue.md §7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from scheduler.errors import type_and_message
from scheduler.framework.enqueue_context import EnqueueContext
from scheduler.framework.events import ClusterEvent
from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.messages.status import Refusal, failure
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.queued_pod import QueuedPod


class Gates:
    """The PreEnqueue plugins of every profile (scheduler name → plugins, in order). Pass one to the queue."""

    def __init__(
        self, plugins: Mapping[str, Sequence[PreEnqueuePlugin]], context: EnqueueContext, facts: QueueMetrics
    ) -> None:
        self._plugins = plugins
        self._context = context
        self._facts = facts

    def held_back(self, profile: str, name: str) -> Collection[str]:
        """UIDs of pods that the named plugin declares it would refuse again."""
        for plugin in self._plugins.get(profile, ()):
            if plugin.name == name:
                try:
                    return plugin.held_back(self._context)
                except Exception as error:  # noqa: BLE001 - a plugin's; its pods are then checked one by one
                    self._facts.problem(f"PreEnqueue plugin {name} raised in held_back: {type_and_message(error)}")
        return ()

    def may_release(self, profile: str, name: str, event: ClusterEvent) -> bool:
        """Whether an event of this kind may change what the named plugin said of a pod."""
        for plugin in self._plugins.get(profile, ()):
            if plugin.name == name:
                try:
                    return plugin.may_release(event)
                except Exception as error:  # noqa: BLE001 - a plugin's; its pods are then checked one by one
                    self._facts.problem(f"PreEnqueue plugin {name} raised in may_release: {type_and_message(error)}")
        return True

    def __call__(self, record: QueuedPod) -> Refusal | None:
        """The first refusal, signed. The plugin that held the pod back last runs first: it likely still does."""
        plugins: Sequence[PreEnqueuePlugin] = self._plugins.get(record.profile, ())
        if record.gating_plugin:
            plugins = sorted(plugins, key=lambda plugin: plugin.name != record.gating_plugin)
        for plugin in plugins:
            try:
                refusal = plugin.pre_enqueue(record.info, self._context)
            except Exception as error:  # noqa: BLE001 - whatever a plugin raises holds back its pod, nothing else
                refusal = failure(type_and_message(error))
                self._facts.problem(
                    f"PreEnqueue plugin {plugin.name} raised for {record.key}: {type_and_message(error)}"
                )
            if refusal is not None:
                return refusal.by(plugin.name)
        return None
