"""The parts of an engine and how they are connected; ``engine.py`` is the door to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from scheduler.cluster.cache import ClusterCache
from scheduler.engine.attempt import Attempt
from scheduler.engine.attempt_memory import AttemptMemory
from scheduler.engine.binding_cycle import BindingCycles
from scheduler.engine.cycle_context import CycleContext
from scheduler.engine.cycles import Cycles
from scheduler.engine.deadlines import Deadlines
from scheduler.engine.engine_settings import EngineSettings
from scheduler.engine.failure import FailureReports
from scheduler.engine.gate_facts import gates_of, hints_of
from scheduler.engine.group_cycles import GroupCycles
from scheduler.engine.group_reports import GroupReports
from scheduler.engine.making_room.room import MakingRoom, RoomReads
from scheduler.engine.tickets import Tickets
from scheduler.engine.tries import Tries
from scheduler.engine.watching import Watching
from scheduler.extenders.documents import Documents
from scheduler.extenders.extender import Extender
from scheduler.framework.classes.cache import ClassCache
from scheduler.framework.plugin_ports import WaitingPod
from scheduler.framework.post_filter import Kept
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.queue.handlers import EventHandlers
from scheduler.queue.known_pods import KnownPods
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.our_pods import OurPods
from scheduler.queue.queue_settings import QueuePlugins
from scheduler.queue.scheduling_queue import SchedulingQueue


class EngineParts:
    """Everything that an engine consists of. What each machine reads and writes is in ``machine.py``."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        *,
        started: Now,
        rng: Random,
        stopwatch: Callable[[], float],
        extenders: tuple[Extender, ...] = (),
        settings: EngineSettings = EngineSettings(),  # noqa: B008 - frozen
    ) -> None:
        limits = settings.tandem.limits
        self.profiles = profiles
        self.settings = settings
        self.extenders = extenders
        self.started = started
        self.rng = rng
        self.stopwatch = stopwatch
        self.is_synced = False
        self.is_stopping = False
        self.facts = QueueMetrics()
        self.documents = Documents()
        self.deadlines = Deadlines()
        self.tickets = Tickets()
        self.known_pods = KnownPods()
        self.cache = ClusterCache(limits.cached_selectors, self.known_pods.get, settings.group_apis)
        self.nominator = self.cache.nominator
        binders = tuple(extender for extender in extenders if extender.has_bind)
        self.bindings = BindingCycles(self.cache, self.tickets, self.deadlines, binders)
        self.bindings.announces_nodes = settings.announces_nodes
        self.room = MakingRoom(
            RoomReads(self.cache, self.known_pods, self.nominator, self.bindings),
            self.tickets,
            self.deadlines,
            settings.tandem.preemption,
            profiles.keys(),
            limits.running_preemptions,
        )
        self.queue = SchedulingQueue(
            QueuePlugins(
                next(iter(profiles.values())).queue_sort,
                hints_of(profiles, self.cache, self.facts, stopwatch, bool(extenders)),
                gates_of(profiles, self.cache, self.room, self.facts),
            ),
            self.facts,
            self.nominator,
            started,
            settings.queue,
            likeness_key=self.cache.likeness_key,
            group_of=self.cache.groups.key_of,
        )
        kept = Kept()
        self.tries = Tries(profiles, self.queue, self.cache, self.room, bool(extenders), kept)
        ours = OurPods(frozenset(profiles), settings.counts_foreign_nominations)
        self.handlers = EventHandlers(
            self.cache, self.queue, self.known_pods, self.bindings, self.room, ours, stopwatch
        )
        self.reports = FailureReports()
        self.group_reports = GroupReports(limits.remembered_attempts)
        self.watching = Watching(
            self.documents,
            self.cache.objects,
            self.known_pods,
            self.handlers,
            self.bindings,
            self.room,
            self.reports,
            self.group_reports,
        )
        self.classes = ClassCache(limit_classes=limits.cached_classes)
        self._context = CycleContext(
            cache=self.cache,
            nominator=self.nominator,
            classes=self.classes,
            extenders=extenders,
            rng=rng,
            stopwatch=stopwatch,
            assumptions=self.handlers,
            policies=self.room,
            tickets=self.tickets,
            report=self.facts.problem,
            documents=self.documents,
            kept=kept,
            percentage_of_nodes_to_score=settings.percentage_of_nodes_to_score,
        )
        self.cycles = Cycles(self._context, self.deadlines)
        self.group_cycles = GroupCycles(self._context, self.known_pods, self.deadlines)
        self.attempts = AttemptMemory(limits.remembered_attempts, self._node_names)

    def attempt_of(self, key: str) -> Attempt | None:
        """The last attempt at a pod (``namespace/name``), while it is remembered."""
        return self.attempts.of(key)

    def waiting_pods(self, plugin: str) -> Sequence[WaitingPod]:
        """The pods that wait for this plugin in Permit, longest wait first."""
        return self.bindings.waiting_for(plugin)

    def _node_names(self) -> Sequence[str]:
        return self.cache.table.names
