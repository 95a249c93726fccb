"""One HTTP extender: whom it concerns, what is sent to it, and how its answers are read.

Pure: bodies in, values out; the call itself is a command (``engine/extender_round.py``). The protocol is that of
kube-scheduler 1.36, whose JSON keys are Go field names; answers may spell them in any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from scheduler.config.types import Extender as ExtenderConfiguration
from scheduler.errors import SchedulerError
from scheduler.objects.pod import Pod

MAX_EXTENDER_PRIORITY = 10
"""Extenders score from 0 to this."""
SCORE_FACTOR = 100 // MAX_EXTENDER_PRIORITY


MOST_OF_A_SCORE = 2**48
"""A weighted score beyond this (either way) is an error: sums must stay within int64."""


class ExtenderError(SchedulerError):
    """An extender failed, or answered what it must not."""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """``passed``: names in the order of the answer, only names that were sent."""

    passed: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VictimsAnswer:
    """Of one node, what the preempt verb left: UIDs of pods, and how many budgets would be broken."""

    uids: tuple[str, ...]
    budget_violations: int


class Extender:
    """Made from its configuration; ``number`` is its place in the order in which extenders are asked."""

    def __init__(self, number: int, configuration: ExtenderConfiguration) -> None:
        self.number = number
        self.configuration = configuration
        self.name = configuration.url_prefix
        self.is_ignorable = configuration.ignorable
        self.timeout_seconds = configuration.http_timeout.seconds
        self._managed = frozenset(resource.name for resource in configuration.managed_resources)

    @property
    def has_filter(self) -> bool:
        return bool(self.configuration.filter_verb)

    @property
    def has_prioritize(self) -> bool:
        return bool(self.configuration.prioritize_verb)

    @property
    def has_bind(self) -> bool:
        return bool(self.configuration.bind_verb)

    @property
    def has_preempt(self) -> bool:
        return bool(self.configuration.preempt_verb)

    def url(self, verb: str) -> str:
        return f"{self.configuration.url_prefix.rstrip('/')}/{verb}"

    def is_interested(self, pod: Pod) -> bool:
        """Concerned with every pod, or with those that name one of its resources in requests or limits."""
        if not self._managed:
            return True
        return any(
            not self._managed.isdisjoint(container.resources.requests)
            or not self._managed.isdisjoint(container.resources.limits)
            for container in (*pod.spec.containers, *pod.spec.init_containers)
        )

    # --- requests -----------------------------------------------------------------------------------------------------

    def nodes_body(self, pod: msgspec.Raw, names: Sequence[str], nodes: Mapping[str, msgspec.Raw]) -> bytes:
        """ExtenderArgs for filter and prioritize: names where the extender keeps nodes itself, else whole nodes."""
        capable = self.configuration.node_cache_capable
        return msgspec.json.encode(
            {
                "Pod": pod,
                "Nodes": None if capable else {"metadata": {}, "items": [nodes[name] for name in names]},
                "NodeNames": list(names) if capable else None,
            }
        )

    @staticmethod
    def bind_body(namespace: str, name: str, uid: str, node: str) -> bytes:
        return msgspec.json.encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})

    def preempt_body(
        self,
        pod: msgspec.Raw,
        victims: Mapping[str, tuple[Sequence[tuple[str, msgspec.Raw]], int]],
    ) -> bytes:
        """ExtenderPreemptionArgs. ``victims``: node → ((uid, whole pod) of each victim, budgets broken)."""
        if self.configuration.node_cache_capable:
            full = None
            meta: Any = {
                node: {"Pods": [{"UID": uid} for uid, _ in pods], "NumPDBViolations": broken}
                for node, (pods, broken) in victims.items()
            }
        else:
            full = {
                node: {"Pods": [raw for _, raw in pods], "NumPDBViolations": broken}
                for node, (pods, broken) in victims.items()
            }
            meta = None
        return msgspec.json.encode({"Pod": pod, "NodeNameToVictims": full, "NodeNameToMetaVictims": meta})

    # --- answers ------------------------------------------------------------------------------------------------------

    def read_filter(self, body: bytes, sent: Sequence[str]) -> FilterAnswer:
        """Raises ExtenderError. Node objects in the answer are read for their names only: ours are kept."""
        answer = _object(body, self.name)
        if answer.get("error"):
            raise ExtenderError(str(answer["error"]))
        known = set(sent)
        listed = answer.get("nodenames")
        if self.configuration.node_cache_capable and listed is not None:
            passed = [str(name) for name in _list(listed, self.name)]
            for name in passed:
                if name not in known:
                    raise ExtenderError(
                        f'extender "{self.name}" claims a filtered node "{name}" '
                        "which is not found in the input node list"
                    )
        elif answer.get("nodes") is not None:
            items = _lowered(answer["nodes"]).get("items") or ()
            passed = [name for name in map(_name_of, _list(items, self.name)) if name in known]
        else:
            passed = []
        unresolvable = _texts(answer.get("failedandunresolvablenodes"), known)
        failed = {
            name: text for name, text in _texts(answer.get("failednodes"), known).items() if name not in unresolvable
        }
        return FilterAnswer(tuple(dict.fromkeys(passed)), failed, unresolvable)

    def read_scores(self, body: bytes) -> dict[str, int]:
        """Node → weighted score, of every node that was named; several entries of one node add up.

        Raises ExtenderError.
        """
        scores: dict[str, int] = {}
        for entry in _list(_decoded(body, self.name) or [], self.name):
            item = _lowered(entry)
            host = str(item.get("host", ""))
            score = _whole(item.get("score"), self.name)
            total = scores.get(host, 0) + score * self.configuration.weight * SCORE_FACTOR
            if abs(total) > MOST_OF_A_SCORE:
                raise ExtenderError(f'extender "{self.name}" answers a score that is out of range: {score}')
            scores[host] = total
        return scores

    def read_bind(self, body: bytes) -> None:
        """Raises ExtenderError unless the extender says that it has bound the pod."""
        error = _object(body, self.name).get("error")
        if error:
            raise ExtenderError(str(error))

    def read_victims(self, body: bytes) -> dict[str, VictimsAnswer]:
        """Node → its victims. Raises ExtenderError."""
        nodes = _object(body, self.name).get("nodenametometavictims") or {}
        if not isinstance(nodes, dict):
            raise ExtenderError(f'extender "{self.name}" answers victims that are not a map of nodes')
        answers: dict[str, VictimsAnswer] = {}
        for node, value in nodes.items():
            victims = _lowered(value or {})
            uids = tuple(str(_lowered(pod).get("uid", "")) for pod in _list(victims.get("pods") or [], self.name))
            answers[str(node)] = VictimsAnswer(uids, _whole(victims.get("numpdbviolations"), self.name))
        return answers


def build_extenders(configurations: Sequence[ExtenderConfiguration]) -> tuple[Extender, ...]:
    """In the order in which they are asked: those that must not fail before those whose failure is ignored."""
    return tuple(Extender(number, configurations[place]) for number, place in enumerate(asking_order(configurations)))


def asking_order(configurations: Sequence[ExtenderConfiguration]) -> list[int]:
    """By the number of each extender, its place in the configuration."""
    return sorted(range(len(configurations)), key=lambda place: configurations[place].ignorable)


def _decoded(body: bytes, name: str) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ExtenderError(f'extender "{name}" answers what is not JSON: {error}') from error


def _object(body: bytes, name: str) -> dict[str, Any]:
    value = _decoded(body, name)
    if not isinstance(value, dict):
        raise ExtenderError(f'extender "{name}" answers what is not a JSON object')
    return _lowered(value)


def _lowered(value: Any) -> dict[str, Any]:
    """Keys in lower case: Go decodes them in any case, so extenders in the field write them in any case."""
    return {str(key).lower(): item for key, item in value.items()} if isinstance(value, dict) else {}


def _list(value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ExtenderError(f'extender "{name}" answers what is not a list where one belongs')
    return value


def _whole(value: Any, name: str) -> int:
    """An integer; absent counts as 0, as Go decodes it."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise ExtenderError(f'extender "{name}" answers what is not a whole number: {value!r}')
    return value


def _name_of(item: Any) -> str:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _texts(value: Any, known: set[str]) -> dict[str, str]:
    """Names that were not sent are ignored: they are none of this pod's nodes."""
    return {str(name): str(text) for name, text in value.items() if name in known} if isinstance(value, dict) else {}
