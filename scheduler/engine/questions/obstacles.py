"""What is in the way of pods: taints, closed nodes, other pods; and the kinds of nodes. Nothing is tried here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np

from scheduler.cluster.pod_info import PodInfo
from scheduler.cluster.table import NodeTable
from scheduler.engine.questions.changes import Values, most, shown_taint, wanted_keys
from scheduler.engine.questions.edits import HOSTNAME
from scheduler.engine.questions.evictions import DAEMON_SET, MIRROR
from scheduler.engine.questions.helps import MAX_OF_A_KIND
from scheduler.framework.diagnosis import Diagnosis
from scheduler.messages.status import Code
from scheduler.objects.meta import controller_of
from scheduler.objects.node import Node, Taint
from scheduler.objects.taints import TolerationIndex, first_untolerated_taint

COMMON_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
MAX_ROWS: Final = 40
MAX_RESOURCES: Final = 64
"""Resources by which rows are compared: of each, an amount a row is kept."""
SLICE: Final = 500
"""Nodes looked at in one step."""


def nodes_of(table: NodeTable) -> Iterator[Node]:
    """All nodes, in the order of the table."""
    for row in table.order.rows.tolist():
        node = table.nodes[row]
        if node is not None:
            yield node


def resources_of(info: PodInfo) -> tuple[str, ...]:
    """What the pod may request: the common resources, and those that it names besides, the first ``MAX_RESOURCES``."""
    return (*COMMON_RESOURCES, *islice(info.requests.scalars, MAX_RESOURCES - len(COMMON_RESOURCES)))


def taints_in_the_way(table: NodeTable, info: PodInfo) -> Counter[Taint]:
    """The taints of open nodes that the pod does not tolerate, by the number of nodes."""
    counts: Counter[Taint] = Counter()
    tolerations = TolerationIndex(info.pod.spec.tolerations)
    for node in nodes_of(table):
        taint = first_untolerated_taint(node.taints, tolerations) if node.taints else None
        if taint is not None and not node.unschedulable:
            counts[Taint(taint.key, taint.value, taint.effect)] += 1
    return counts


def closed_nodes(table: NodeTable) -> Sequence[str]:
    """The names of the first cordoned nodes."""
    return [node.name for node in nodes_of(table) if node.unschedulable][:MAX_OF_A_KIND]


def kinds_of_nodes(table: NodeTable) -> Generator[None, None, Sequence[tuple[str, int]]]:
    """One node of each kind (the same labels, taints and room) with their number, the most frequent kinds first."""
    kinds: dict[object, tuple[str, int]] = {}
    for number, node in enumerate(list(nodes_of(table))):
        labels = frozenset(pair for pair in node.labels.items() if pair[0] != HOSTNAME)
        kind = (frozenset(node.status.allocatable.items()), labels, node.taints)
        name, count = kinds.get(kind, (node.name, 0))
        kinds[kind] = name, count + 1
        if number % SLICE == SLICE - 1:
            yield
    return sorted(kinds.values(), key=lambda pair: -pair[1])[:MAX_OF_A_KIND]


def pods_in_the_way(table: NodeTable, info: PodInfo, diagnosis: Diagnosis) -> Iterator[Sequence[PodInfo]]:
    """For each row on which other pods are in the way, the row with least to make up for first: those whose end may
    make enough room."""
    for row, short in _nearest(table, info, diagnosis):
        yield _holding(table, row, short)


def _nearest(table: NodeTable, info: PodInfo, diagnosis: Diagnosis) -> list[tuple[int, dict[str, int]]]:
    """Rows with what is short of each resource: the least short first."""
    rows = diagnosis.rows_refused_as(Code.UNSCHEDULABLE)
    requests = info.requests
    total = np.zeros(len(rows))
    shorts = {}
    for name in resources_of(info):
        if not requests.amount(name):
            continue
        short = np.maximum(requests.amount(name) - (table.allocatable(name) - table.requested(name))[rows], 0)
        shorts[name] = short
        total += short / max(requests.amount(name), 1)
    order = np.argsort(total, kind="stable")[:MAX_ROWS].tolist()
    return [(int(rows[at]), {name: int(short[at]) for name, short in shorts.items() if short[at]}) for at in order]


def _holding(table: NodeTable, row: int, short: dict[str, int]) -> list[PodInfo]:
    """Pods of a row that hold at least what is short, the least important and smallest first."""
    held = [
        other
        for other in table.pods[row].values()
        if all(other.charged.amount(name) >= amount for name, amount in short.items()) and _may_go(other)
    ]
    held.sort(key=lambda one: (one.priority, one.charged.milli_cpu, one.charged.memory, one.key))
    return held[: 2 if short else MAX_OF_A_KIND]


def _may_go(other: PodInfo) -> bool:
    owner = controller_of(other.pod.metadata)
    return MIRROR not in other.pod.metadata.annotations and (owner is None or owner.kind != DAEMON_SET)


def values_wanted(table: NodeTable, infos: Sequence[PodInfo]) -> Generator[None, None, tuple[Values, ...]]:
    """What these pods want of nodes, and what the nodes have."""
    found: list[Values] = []
    wishes = {wanted: key for info in infos for key, wanted in wanted_keys(info).items()}
    for wanted, key in wishes.items():
        found.append(Values(wanted, most(Counter(node.labels.get(key, "") for node in nodes_of(table)))))
        yield
    yield
    taints: dict[str, int] = {}
    for info in infos:
        tolerations = TolerationIndex(info.pod.spec.tolerations)
        counts: Counter[str] = Counter()
        for node in nodes_of(table):
            taint = first_untolerated_taint(node.taints, tolerations) if node.taints else None
            if taint is not None:
                counts[shown_taint(taint)] += 1
        for shown, count in counts.items():
            taints[shown] = max(count, taints.get(shown, 0))
        yield
    if taints:
        found.append(Values("a toleration", most(Counter(taints))))
    return tuple(found)
