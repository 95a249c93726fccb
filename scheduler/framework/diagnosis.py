"""Diagnosis: why no node fits, node by node, and the message for users."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from scheduler.messages.status import Code, Refusal, unresolvable

RefusalCodes = npt.NDArray[np.int32]

NOT_LOOKED_AT = unresolvable()
"""The status of nodes that were not evaluated: preemption can't help there, and the message does not count them."""


class Diagnosis(Struct, frozen=True):
    """The refusals of one attempt that found no node.

    ``codes`` has one int32 per row: 0 if the row has no status of its own, else k for ``refusals[k - 1]``, signed by
    the first plugin that refused it. Rows without a status of their own have the status ``absent``.
    """

    codes: RefusalCodes
    refusals: tuple[Refusal, ...] = ()
    absent: Refusal = NOT_LOOKED_AT
    pre_filter: Refusal | None = None
    """The refusal of the pod as a whole, signed; the message then shows it in place of the histogram."""
    unschedulable_plugins: frozenset[str] = frozenset()
    """The plugins that rejected a node or the pod, or restricted the nodes; the queue calls their hints for events."""
    pending_plugins: frozenset[str] = frozenset()
    """As ``unschedulable_plugins``, for plugins that answered Pending."""
    post_filter_message: str = ""

    def at(self, row: int) -> Refusal:
        """The refusal of this row."""
        code = self.codes.item(row)
        return self.refusals[code - 1] if code else self.absent

    @property
    def explicit_count(self) -> int:
        """The number of rows with a status of their own."""
        return int(np.count_nonzero(self.codes))

    def rows_refused_as(self, code: Code) -> npt.NDArray[np.int64]:
        """Rows whose status has this code, int64, ascending; if ``absent`` has that code, also all rows without a
        status of their own, rows without a node included."""
        return np.flatnonzero(self.is_refused_as(code))

    def is_refused_as(self, code: Code) -> npt.NDArray[np.bool_]:
        """``rows_refused_as`` as a mask: bool, one a row."""
        wanted = np.zeros(len(self.refusals) + 1, np.bool_)
        wanted[0] = self.absent.code is code
        for number, refusal in enumerate(self.refusals, start=1):
            wanted[number] = refusal.code is code
        mask: npt.NDArray[np.bool_] = wanted[self.codes]
        return mask

    def with_post_filter(self, message: str) -> Diagnosis:
        return replace(self, post_filter_message=message) if message != self.post_filter_message else self

    @staticmethod
    def of_pod(refusal: Refusal, size: int) -> Diagnosis:
        """The diagnosis if a PreFilter plugin refused the pod as a whole: all ``size`` rows have the status
        ``refusal``, which is signed."""
        return Diagnosis(
            codes=np.zeros(size, np.int32),
            absent=refusal,
            pre_filter=refusal,
            unschedulable_plugins=frozenset({refusal.plugin} if refusal.code is not Code.PENDING else ()),
            pending_plugins=frozenset({refusal.plugin} if refusal.code is Code.PENDING else ()),
        )

    @staticmethod
    def of_rows(refusals: Mapping[int, Refusal], size: int, absent: Refusal = NOT_LOOKED_AT) -> Diagnosis:
        """A diagnosis from signed refusals by row."""
        builder = DiagnosisBuilder(size)
        for row, refusal in refusals.items():
            builder.refuse(np.array([row]), refusal)
        return builder.build(absent=absent)


class DiagnosisBuilder:
    """Collects refusals of ``size`` rows; each row keeps its first one."""

    def __init__(self, size: int) -> None:
        self.codes: RefusalCodes = np.zeros(size, np.int32)
        self._numbers: dict[Refusal, int] = {}

    def refuse(self, rows: npt.NDArray[np.int64], refusal: Refusal) -> None:
        """Adds a signed refusal for those of these rows (int64) that have none yet."""
        number = self._numbers.setdefault(refusal, len(self._numbers) + 1)
        fresh = rows[self.codes[rows] == 0]
        self.codes[fresh] = number

    def build(self, absent: Refusal = NOT_LOOKED_AT, narrowed_by: frozenset[str] = frozenset()) -> Diagnosis:
        """Returns the diagnosis. ``narrowed_by``: plugins that restricted the set of nodes; they count as rejectors."""
        used = set(np.flatnonzero(np.bincount(self.codes)).tolist())
        plugins = {True: set[str](), False: set[str]()}
        for refusal, number in self._numbers.items():
            if number in used:
                plugins[refusal.code is Code.PENDING].add(refusal.plugin)
        return Diagnosis(
            codes=self.codes,
            refusals=tuple(self._numbers),
            absent=absent,
            unschedulable_plugins=frozenset(plugins[False] | narrowed_by),
            pending_plugins=frozenset(plugins[True]),
        )


def outside_node_set(plugins: frozenset[str]) -> Refusal:
    """The status of nodes outside of the node sets of these plugins."""
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]")


def disjoint_node_sets(plugins: frozenset[str]) -> Refusal:
    """The refusal of a pod for which the node sets of these plugins have no node in common."""
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {next(iter(plugins))}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously")


def fit_error_text(total_nodes: int, diagnosis: Diagnosis) -> str:
    """The message of an attempt that found no node, word for word as kube-scheduler 1.36 writes it: ``0/3 nodes are
    available: 3 Insufficient cpu. preemption: ...``. ``total_nodes`` counts all nodes of the cluster, including those
    that were not evaluated."""
    text = f"0/{total_nodes} nodes are available:"
    if diagnosis.pre_filter is not None and diagnosis.pre_filter.reasons:
        text += f" {diagnosis.pre_filter.message}."
    else:
        entries = [f"{count} {reason}" for reason, count in reason_counts(total_nodes, diagnosis).items()]
        if entries:
            text += f" {', '.join(sorted(entries))}."
    if diagnosis.post_filter_message:
        text += f" {diagnosis.post_filter_message}"
    return text


_MAX_TEXTS = 64


class FitTexts:
    """The texts of the last diagnoses: pods that fail alike share the codes of theirs."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[int, tuple[int, Diagnosis, str]] = {}
        """By the identity of the codes, which live as long as their entry."""

    def text(self, total_nodes: int, diagnosis: Diagnosis) -> str:
        """``fit_error_text``, from the last texts where these have it."""
        known = self._texts.get(id(diagnosis.codes))
        if known is not None:
            of_nodes, other, text = known
            if of_nodes == total_nodes and other.post_filter_message == diagnosis.post_filter_message:
                return text
        text = fit_error_text(total_nodes, diagnosis)
        if len(self._texts) >= _MAX_TEXTS:
            self._texts.clear()
        self._texts[id(diagnosis.codes)] = total_nodes, diagnosis, text
        return text


def reason_counts(total_nodes: int, diagnosis: Diagnosis) -> dict[str, int]:
    """The number of nodes for each reason; a node with several reasons counts for each of them."""
    counts: dict[str, int] = {}
    numbers = np.bincount(diagnosis.codes, minlength=len(diagnosis.refusals) + 1).tolist()
    for refusal, number in zip(diagnosis.refusals, numbers[1:], strict=True):
        for reason in refusal.reasons if number else ():
            counts[reason] = counts.get(reason, 0) + number
    others = total_nodes - sum(numbers[1:])
    if others > 0:
        for reason in diagnosis.absent.reasons:
            counts[reason] = counts.get(reason, 0) + others
    return counts
