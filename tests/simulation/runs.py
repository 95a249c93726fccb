"""One whole run of a simulated cluster: random users and trouble first, then calm until nothing moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from scheduler.compose import build_engine, build_profiles, engine_settings
from scheduler.config.feature_gates import parse_feature_gates
from scheduler.config.loading import Configuration, load
from scheduler.engine.engine import Engine
from scheduler.errors import InvariantViolation
from scheduler.framework.profile import Profile
from scheduler.messages.now import Now
from scheduler.objects.kinds import Kind
from scheduler.simulate.changes import Change, Step, carry_out
from scheduler.simulate.world import EngineFactory, World
from scheduler.simulate.world_extender import Extender, no_extender
from scheduler.simulate.world_facts import is_over
from scheduler.simulate.world_gangs import check_at_rest
from scheduler.simulate.world_trouble import CALM, ROUGH, Trouble
from tests.simulation.workload import RandomWorkload, gangs_that_fit, plain_pods_that_fit

SETTLE_SECONDS = 700.0
"""Twice the longest time that a pod waits in the pool before it is tried again without any event."""

CHECK_STEPS = 10
KUBE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Configurations:
    """The configurations of a run: engines for the first, and reloads of the others."""

    def __init__(self, configurations: Sequence[Configuration]) -> None:
        self._all = configurations
        self._profiles: list[dict[str, Profile]] = [dict(build_profiles(one)) for one in configurations]

    def engine(self, started: Now, seed: int, configuration: int) -> Engine:
        return build_engine(self._all[configuration], started=started, seed=seed, stopwatch=lambda: 0.0)

    def reload(self, engine: Engine, configuration: int, now: Now) -> bool:
        chosen = self._all[configuration]
        return engine.replace_profiles(self._profiles[configuration], engine_settings(chosen), now)


def engines(configuration: Configuration | None = None) -> EngineFactory:
    return Configurations([configuration or load()]).engine


def world(seed: int = 1, trouble: Trouble = CALM) -> World:
    return World(seed, engines(), trouble)


@dataclass(frozen=True, slots=True)
class Case:
    """What a random run is about, and which configurations it is given."""

    configurations: tuple[str, ...] = ("",)
    has_volumes: bool = False
    has_gangs: bool = False
    gangs_have_demands: bool = False
    has_devices: bool = False
    gates: str = ""
    extender: Extender = no_extender

    def world(self, seed: int, trouble: Trouble) -> World:
        gates = parse_feature_gates(self.gates)
        made = Configurations([load(text or None, gates=gates) for text in self.configurations])
        return World(seed, made.engine, trouble, reload=made.reload, extender=self.extender)


def keeps_batch_from_odd_nodes(verb: str, arguments: dict[str, Any]) -> Any:
    """An extender with a rule of its own, which a check at the end can tell from every other plugin's."""
    if verb != "filter":
        return [{"host": name, "score": len(name) % 10} for name in arguments["NodeNames"]]
    is_batch = arguments["Pod"]["metadata"]["labels"].get("app") == "batch"
    refused = [name for name in arguments["NodeNames"] if is_batch and is_odd(name)]
    return {
        "nodenames": [name for name in arguments["NodeNames"] if name not in refused],
        "failedNodes": dict.fromkeys(refused, "an odd node"),
    }


def is_odd(node: str) -> bool:
    return int(node.rpartition("-")[2]) % 2 == 1


EXTENDER = (
    KUBE + "extenders: [{urlPrefix: 'http://e', filterVerb: filter, prioritizeVerb: prioritize, weight: 3, "
    "nodeCacheCapable: true}]\n"
)

CASES = {
    "plain": Case(),
    "volumes": Case(has_volumes=True),
    "extender": Case((EXTENDER,), extender=keeps_batch_from_odd_nodes),
    "reloads": Case(("", KUBE + "percentageOfNodesToScore: 50\n", KUBE + "podMaxBackoffSeconds: 1\n")),
    "gangs": Case(has_gangs=True, gates="GenericWorkload=true,GangScheduling=true"),
    "gangs with demands": Case(
        has_gangs=True,
        gangs_have_demands=True,
        gates="GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,"
        "WorkloadAwarePreemption=true",
    ),
    "devices": Case(has_devices=True),
    "all of them": Case(
        (EXTENDER, EXTENDER + "percentageOfNodesToScore: 50\n"),
        has_volumes=True,
        extender=keeps_batch_from_odd_nodes,
    ),
}


class Run:
    """A run that has ended, or broken: its world, and the script that leads there from its seed.

    ``between`` is called after each step.
    """

    def __init__(
        self, seed: int, case: Case, trouble: Trouble = ROUGH, between: Callable[[World], None] = lambda _world: None
    ) -> None:
        self._between = between
        self.case = case
        self.seed = seed
        self.script: list[Step] = []
        self.world = case.world(seed, trouble)

    def draw(self, steps: int) -> None:
        """Go through ``steps`` random actions, then calm. Raises whatever breaks; ``script`` holds what led to it."""
        random = Random(f"{self.seed} pauses")
        workload = RandomWorkload(
            self.world,
            volumes=self.case.has_volumes,
            gangs=self.case.has_gangs,
            gang_demands=self.case.gangs_have_demands,
            devices=self.case.has_devices,
            configurations=len(self.case.configurations),
        )
        self._apply(workload.begin())
        for number in range(steps):
            self._apply(workload.step(), random.uniform(0.0, 1.5))
            if number % CHECK_STEPS == 0:
                self.world.check()
        self._calm(workload)

    def follow(self, script: Iterable[Step]) -> None:
        """Go through a script, then calm. Raises whatever breaks."""
        for number, step in enumerate(script):
            self._apply([step.change], step.seconds)
            if number % CHECK_STEPS == 0:
                self.world.check()
        self._calm(
            RandomWorkload(self.world, devices=self.case.has_devices, configurations=len(self.case.configurations))
        )

    def _apply(self, changes: Iterable[Change], seconds: float = 0.0) -> None:
        for change in changes:
            self.script.append(Step(change, 0.0))
            carry_out(change, self.world)
        if self.script:
            self.script[-1] = msgspec.structs.replace(self.script[-1], seconds=self.script[-1].seconds + seconds)
        self.world.run_for(seconds)
        self._between(self.world)

    def _calm(self, workload: RandomWorkload) -> None:
        made = self.world
        made.check()
        made.trouble = CALM
        for change in list(workload.settle()):
            carry_out(change, made)
        made.run_for(SETTLE_SECONDS)
        made.check()
        if "" in self.case.configurations and not self.case.has_volumes and (late := plain_pods_that_fit(made)):
            raise InvariantViolation(f"pods that fit wait in the end: {late}")
        if self.case.has_gangs:
            check_at_rest(made.engine)
            if late := gangs_that_fit(made):
                raise InvariantViolation(f"gangs that fit wait in the end: {late}")
        if self.case.extender is keeps_batch_from_odd_nodes:
            _check_extender(made)


def _check_extender(made: World) -> None:
    for key, pod in made.facts.of(Kind.POD):
        node = pod["spec"].get("nodeName")
        if node and not is_over(pod) and pod["metadata"]["labels"]["app"] == "batch" and is_odd(node):
            raise InvariantViolation(f"pod {key} is on {node}, which its extender refuses")


def whole_run(seed: int, steps: int, configuration: Configuration | None = None, case: Case | None = None) -> World:
    """Invariants are checked all along. Raises whatever breaks."""
    run = Run(seed, case or Case())
    if configuration is not None:
        run.world = World(seed, engines(configuration), ROUGH)
    run.draw(steps)
    return run.world
