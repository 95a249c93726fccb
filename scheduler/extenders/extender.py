"""One HTTP extender: the pods it is interested in, the request bodies, and the decoding of its answers.

Pure: bodies in, values out; the call itself is a command (``engine/extender_round.py``). The protocol is that of
kube-scheduler 1.36, whose JSON keys are Go field names; answers may have them in any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from scheduler.config.types import Extender as ExtenderConfiguration
from scheduler.extenders.answers import (
    LIST,
    NAMES,
    NODES,
    OBJECT,
    TEXTS,
    ExtenderError,
    Fields,
    NamedItem,
    decode,
    shortened,
)
from scheduler.objects.pod import Pod

MAX_EXTENDER_PRIORITY = 10
"""The highest score of an extender; the lowest is 0."""
SCORE_FACTOR = 100 // MAX_EXTENDER_PRIORITY


MAX_SCORE = 2**48
"""The largest absolute value of a weighted score, so that sums stay within int64."""


class FilterAnswer(Struct, frozen=True):
    """``passed``: names in the order of the answer, only names that were sent."""

    passed: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)


class VictimsAnswer(Struct, frozen=True):
    """One node in the preempt verb's answer: UIDs of the victims, and the number of violated budgets."""

    uids: tuple[str, ...]
    budget_violations: int


class Extender:
    """An extender; ``number`` is its index in the order in which extenders are called."""

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
        """Whether it is to be called for the pod: for any, or only if the pod requests one of its managed resources."""
        if not self._managed:
            return True
        return any(
            not self._managed.isdisjoint(container.resources.requests)
            or not self._managed.isdisjoint(container.resources.limits)
            for container in (*pod.spec.containers, *pod.spec.init_containers)
        )

    # --- requests -----------------------------------------------------------------------------------------------------

    def nodes_body(self, pod: msgspec.Raw, names: Sequence[str], nodes: Mapping[str, msgspec.Raw]) -> bytes:
        """ExtenderArgs for filter and prioritize: names if the extender caches nodes itself, else complete nodes."""
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
        """ExtenderPreemptionArgs. ``victims``: node → ((uid, complete pod) of each victim, violated budgets)."""
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
        """Decodes the filter verb's answer. Of node objects in it only the names are read. Raises ExtenderError."""
        answer = Fields(body, self.name)
        if error := answer.text("error"):
            raise ExtenderError(error)
        known = set(sent)
        listed = answer.of("nodenames", NAMES, "what is not a list of names")
        passed: list[str] = []
        if self.configuration.node_cache_capable and listed is not None:
            passed = [name or "" for name in listed]
            for name in passed:
                if name not in known:
                    raise ExtenderError(
                        f'extender "{self.name}" claims a filtered node "{shortened(name)}" '
                        "which is not found in the input node list"
                    )
        elif (nodes := answer.object("nodes")) is not None:
            items = nodes.of("items", NODES, "what is not a list of nodes") or ()
            passed = [name for name in map(_name_of, items) if name in known]
        unresolvable = _texts(answer, "failedandunresolvablenodes", known)
        failed = {name: text for name, text in _texts(answer, "failednodes", known).items() if name not in unresolvable}
        return FilterAnswer(tuple(dict.fromkeys(passed)), failed, unresolvable)

    def read_scores(self, body: bytes) -> dict[str, int]:
        """Node → weighted score, for every node in the answer; several entries of one node add up.

        Raises ExtenderError.
        """
        scores: dict[str, int] = {}
        for entry in decode(LIST, body, self.name, "what is not a list of scores") or ():
            item = Fields(entry, self.name)
            host, score = item.text("host"), item.whole("score")
            total = scores.get(host, 0) + score * self.configuration.weight * SCORE_FACTOR
            if abs(total) > MAX_SCORE:
                raise ExtenderError(f'extender "{self.name}" answers a score that is out of range: {score}')
            scores[host] = total
        return scores

    def read_bind(self, body: bytes) -> None:
        """Raises ExtenderError unless the answer says that the pod was bound."""
        if error := Fields(body, self.name).text("error"):
            raise ExtenderError(error)

    def read_victims(self, body: bytes) -> dict[str, VictimsAnswer]:
        """Node → its victims. Raises ExtenderError."""
        answer = Fields(body, self.name)
        nodes = answer.of("nodenametometavictims", OBJECT, "victims that are not a map of nodes") or {}
        answers: dict[str, VictimsAnswer] = {}
        for node, value in nodes.items():
            victims = Fields(value, self.name)
            pods = victims.of("pods", LIST, "what is not a list of pods") or ()
            uids = tuple(Fields(pod, self.name).text("uid") for pod in pods)
            answers[node] = VictimsAnswer(uids, victims.whole("numpdbviolations"))
        return answers


def build_extenders(configurations: Sequence[ExtenderConfiguration]) -> tuple[Extender, ...]:
    """The extenders in the order of calls: those that must not fail before those whose failure is ignored."""
    return tuple(Extender(number, configurations[place]) for number, place in enumerate(asking_order(configurations)))


def asking_order(configurations: Sequence[ExtenderConfiguration]) -> list[int]:
    """For each extender number, its index in the configuration."""
    return sorted(range(len(configurations)), key=lambda place: configurations[place].ignorable)


def _name_of(item: NamedItem | None) -> str:
    return (item.metadata.name or "") if item is not None and item.metadata is not None else ""


def _texts(answer: Fields, field: str, known: set[str]) -> dict[str, str]:
    """Node → text, without names that were not sent to the extender."""
    texts = answer.of(field, TEXTS, "what is not a map of nodes to texts") or {}
    return {name: shortened(text) for name, text in texts.items() if name in known}
