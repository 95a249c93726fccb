"""One scenario, run: its objects go through the product's decoder into an engine; the answers are read off Attempts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from scheduler.cluster.devices.reserved import SetAside
from scheduler.cluster.pod_info import PodInfo
from scheduler.compose import build_engine, build_profiles
from scheduler.config.loading import Configuration, load
from scheduler.engine.attempt import Attempt
from scheduler.engine.cycle_context import Depth
from scheduler.engine.engine import Engine
from scheduler.engine.outcome import CycleOutcome, NotPlaced, Placed
from scheduler.framework.plugin import State
from scheduler.framework.profile import Profile
from scheduler.messages.claim_commands import DeallocateClaim
from scheduler.messages.now import Now
from scheduler.messages.status import Refusal
from scheduler.messages.stimuli import ObjectObserved, Synced
from scheduler.objects.kinds import Kind, decode, decode_as
from scheduler.objects.pod import Pod
from scheduler.plugins.devices.dynamic_resources import DynamicResources
from scheduler.plugins.devices.reservation import Decision
from scheduler.plugins.devices.situation import special_claim_key

NOW = Now(monotonic=1000.0, wall=1_800_000_000 * 10**9)

NEVER_READ = ("resourceclaimtemplates",)
"""Kinds that a scheduler does not read."""

DEFAULT_PROFILE = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler"}],
}


@dataclass(slots=True)
class Answers:
    """What the engine says, in the form of the vectors' ``expect``."""

    pre_enqueue: dict[str, str] | None = None
    error: str | None = None
    pre_filter: dict[str, Any] = field(default_factory=lambda: {"status": None, "nodeNames": None})
    filter: dict[str, Any] | None = None
    feasible: list[str] = field(default_factory=list)
    scores: dict[str, dict[str, int]] | None = None
    total: dict[str, int] | None = None
    choice: str = ""
    fit_error: str = ""
    preemption: Any = None
    nomination: str = ""
    nominated: str = ""
    allocations: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)


def run(scenario: dict[str, Any]) -> Answers:
    """Raises whatever the engine raises: that is a difference too."""
    configuration, profiles = _configured(msgspec.json.encode(scenario["config"] or DEFAULT_PROFILE).decode())
    engine = build_engine(configuration, started=NOW, seed=0, stopwatch=lambda: 0.0, profiles=profiles)
    for plural, objects in scenario["objects"].items():
        if plural in NEVER_READ:
            continue
        for document in objects:
            _show(engine, Kind(plural), document)
    pod = decode_as(Pod, msgspec.json.encode(scenario["pod"]))
    if not pod.node_name:
        # A pod that names its node already (family nodename) would count as running there.
        engine.handle(ObjectObserved(Kind.POD, pod), NOW)
    engine.handle(Synced(), NOW)
    return _answers(engine, pod)


def _show(engine: Engine, kind: Kind, document: Any) -> None:
    engine.handle(ObjectObserved(kind, decode(kind, msgspec.json.encode(document))), NOW)


@lru_cache(maxsize=64)
def _configured(text: str) -> tuple[Configuration, dict[str, Profile]]:
    configuration = load(text)
    return configuration, build_profiles(configuration)


def _answers(engine: Engine, pod: Pod) -> Answers:
    answers = Answers()
    waiting = engine.queue.find(pod.key)
    if waiting is not None and waiting.is_gated:
        answers.pre_enqueue = {"plugin": waiting.gating_plugin, "message": ", ".join(waiting.gating_reasons)}
        return answers
    attempt, outcome = engine.preview(pod, NOW, Depth.SCORE_ALL)
    _read_filters(engine, attempt, answers)
    if isinstance(outcome, Placed):
        answers.scores = attempt.scores
        # Where no plugin scores, kube-scheduler has no total either.
        answers.total = attempt.total if attempt.scores else {}
        decided, _ = engine.preview(pod, NOW)
        answers.choice = decided.node
        answers.allocations = {node: allocations_on(engine, pod, node) for node in answers.feasible}
    else:
        _read_failure(engine, attempt, outcome, answers)
    return answers


def _read_filters(engine: Engine, attempt: Attempt, answers: Answers) -> None:
    diagnosis = attempt.diagnosis
    if attempt.only_nodes is not None:
        answers.pre_filter["nodeNames"] = sorted(attempt.only_nodes)
    if diagnosis is None:
        return
    if diagnosis.pre_filter is not None:
        answers.pre_filter["status"] = _status(diagnosis.pre_filter)
        return
    table = engine.cache.table
    answers.filter = {}
    for row in table.order.rows.tolist():
        name = table.names[row]
        if diagnosis.codes[row] or (attempt.only_nodes is not None and name not in attempt.only_nodes):
            answers.filter[name] = _status(diagnosis.at(row))
        else:
            answers.filter[name] = None
            answers.feasible.append(name)


def _read_failure(engine: Engine, attempt: Attempt, outcome: CycleOutcome, answers: Answers) -> None:
    assert isinstance(outcome, NotPlaced)
    if outcome.is_error or not outcome.unschedulable_plugins:
        answers.error = outcome.message
    else:
        answers.fit_error = outcome.message
    answers.preemption = attempt.preemption
    answers.nomination = outcome.nomination.mode.value
    answers.nominated = outcome.nomination.node_name
    answers.released = [write.claim.key for write in outcome.writes if isinstance(write, DeallocateClaim)]


def allocations_on(engine: Engine, pod: Pod, node: str) -> list[dict[str, Any]]:
    """What Reserve would set aside on a node, as the claims' JSON."""
    plugins = {plugin.name: plugin for plugin in engine.profiles[pod.spec.scheduler_name].reserve_plugins}
    plugin = plugins.get(DynamicResources.name)
    if not isinstance(plugin, DynamicResources):
        return []
    view, info = engine.cache.view, PodInfo(pod)
    state = plugin.pre_filter(info, view)
    effects = plugin.reserve(state if isinstance(state, State) else None, info, view, node)
    assert not isinstance(effects, Refusal), effects
    entries = []
    for effect in effects:
        assert isinstance(effect, SetAside)
        decision = effect.decision
        assert isinstance(decision, Decision)
        entries += [
            {"claim": claim.key, "allocation": msgspec.to_builtins(allocation)}
            for claim, allocation in decision.allocated
        ]
        special = decision.special
        if special is not None:
            entries.append(
                {
                    "claim": special_claim_key(info),
                    "allocation": msgspec.to_builtins(special.allocation),
                    "requests": msgspec.to_builtins(special.requests.requests),
                    "mappings": msgspec.to_builtins(special.requests.mappings),
                }
            )
    return entries


def _status(refusal: Refusal) -> dict[str, Any]:
    return {"code": refusal.code.value, "plugin": refusal.plugin, "reasons": sorted(refusal.reasons)}
