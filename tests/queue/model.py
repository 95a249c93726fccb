"""The queue once more, as plainly as it can be said: lists, recounted at every question. The judge of the real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

SECOND = 1000
"""Times are whole milliseconds."""


@dataclass
class ModelPod:
    name: str
    app: str
    priority: int
    since: int
    place: str = ""
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    plugins: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    gated: bool = False

    @property
    def turn(self) -> tuple[int, int]:
        return -self.priority, self.since

    @property
    def expiry(self) -> int:
        count = self.errors or self.rejections
        if not count:
            return 0
        return (self.since + min(SECOND << (count - 1), 10 * SECOND)) // SECOND * SECOND


@dataclass
class ModelEvent:
    """``wakes``: plugin → whether its hint says Queue for this pod. ``forced``: ForceActivate of that pod."""

    label: str
    wakes: dict[str, Callable[[ModelPod], bool]]
    forced: str | None = None


class Model:
    def __init__(self) -> None:
        self.now = 0
        self.pods: dict[str, ModelPod] = {}
        self.log: list[ModelPod | ModelEvent] = []
        self.shut: set[str] = set()

    # --- questions ----------------------------------------------------------------------------------------------------

    def at(self, place: str) -> list[ModelPod]:
        return [pod for pod in self.pods.values() if pod.place == place]

    def active(self) -> list[str]:
        return [pod.name for pod in sorted(self.at("active"), key=lambda pod: pod.turn)]

    def backoff(self) -> list[str]:
        return [pod.name for pod in sorted(self.at("backoff"), key=lambda pod: (pod.expiry, pod.turn))]

    def is_backing_off(self, pod: ModelPod) -> bool:
        return pod.expiry > 0 and pod.expiry >= self.now // SECOND * SECOND

    # --- operations ---------------------------------------------------------------------------------------------------

    def add(self, name: str, app: str, priority: int) -> None:
        pod = self.pods[name] = ModelPod(name, app, priority, self.now)
        self.place(pod, "immediately")

    def delete(self, name: str) -> None:
        if self.pods[name].place != "in flight":
            del self.pods[name]
        else:
            self.pods[name].place = "in flight, deleted"

    def update(self, name: str) -> None:
        """A change that no plugin has registered. For pods in flight it is kept, if some plugin heard of such."""
        if self.pods[name].place == "in flight":
            self.keep(ModelEvent("update", {}))

    def pop(self) -> str | None:
        name = next(iter(self.active() or self.backoff()), None)
        if name is not None:
            pod = self.pods[name]
            pod.place = "in flight"
            pod.attempts += 1
            self.log.append(pod)
        return name

    def done(self, name: str) -> None:
        self.log.remove(self.pods[name])
        while self.log and isinstance(self.log[0], ModelEvent):
            self.log.pop(0)

    def forget(self, name: str) -> None:
        self.done(name)
        del self.pods[name]

    def fail(self, name: str, plugins: set[str], pending: set[str]) -> None:
        pod = self.pods[name]
        since_pop = [entry for entry in self.log[self.log.index(pod) :] if isinstance(entry, ModelEvent)]
        self.done(name)
        pod.plugins, pod.pending = set(plugins), set(pending)
        if plugins | pending:
            pod.rejections, pod.errors = pod.rejections + 1, 0
        else:
            pod.errors += 1
        pod.since = self.now
        strategies = [self.strategy(pod, event) for event in since_pop]
        if not plugins | pending:
            strategies = ["after back-off"]
        best = next((one for one in ("immediately", "after back-off") if one in strategies), "skip")
        self.place(pod, best)

    def event(self, event: ModelEvent) -> None:
        for pod in self.at("pool"):
            strategy = "skip" if pod.gated else self.strategy(pod, event)
            if strategy != "skip":
                self.place(pod, strategy)
        self.keep(event)

    def open_gate(self, name: str) -> None:
        """The pod's own update says that its last gate is gone."""
        self.shut.discard(name)
        pod = self.pods[name]
        event = ModelEvent("own", {"Gate": lambda other: other is pod})
        if pod.place.startswith("in flight"):
            self.keep(event)
        elif pod.place == "pool" and self.strategy(pod, event) != "skip":
            self.place(pod, self.strategy(pod, event))

    def activate(self, name: str) -> None:
        pod = self.pods[name]
        if pod.place in ("backoff", "errors"):
            pod.place = "active"
        elif pod.place == "pool":
            self.place(pod, "immediately")
        elif pod.place == "in flight":
            self.keep(ModelEvent("forced", {}, forced=name))

    def advance(self, milliseconds: int) -> None:
        until = self.now + milliseconds
        while (self.now // SECOND + 1) * SECOND <= until:
            self.now = (self.now // SECOND + 1) * SECOND
            for pod in (*self.at("backoff"), *self.at("errors")):
                if not self.is_backing_off(pod):
                    pod.place = "active"
            if self.now % (30 * SECOND) == 0:
                late = [pod for pod in self.at("pool") if self.now - pod.since > 300 * SECOND]
                for pod in late:
                    self.place(pod, "after back-off")
                if late:
                    self.keep(ModelEvent("timeout", {}, forced="*"))
        self.now = until

    # --- rules --------------------------------------------------------------------------------------------------------

    def keep(self, event: ModelEvent) -> None:
        if any(isinstance(entry, ModelPod) for entry in self.log):
            self.log.append(event)

    def strategy(self, pod: ModelPod, event: ModelEvent) -> str:
        if not pod.plugins | pod.pending:
            return "after back-off"
        if event.forced is not None:
            return "after back-off" if event.forced in (pod.name, "*") else "skip"
        saying = {plugin for plugin in pod.plugins | pod.pending if plugin in event.wakes and event.wakes[plugin](pod)}
        if saying & pod.pending:
            return "immediately"
        return "after back-off" if saying else "skip"

    def place(self, pod: ModelPod, strategy: str) -> None:
        pod.place = "pool"
        if strategy == "skip":
            return
        pod.gated = pod.name in self.shut
        if pod.gated:
            pod.plugins.add("Gate")
        elif strategy == "after back-off" and self.is_backing_off(pod):
            pod.place = "backoff" if pod.plugins | pod.pending else "errors"
        else:
            pod.place = "active"
