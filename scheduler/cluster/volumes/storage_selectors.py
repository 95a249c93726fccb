"""The selectors of claims, volumes and storage classes, parsed.

An object may have 1.5 MB, and to parse a selector of that length takes up to 0.2 s. So a long one is parsed once while
its object stays the same, and with pauses where ``parse_in_steps`` is asked first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

from scheduler.objects.memo import MAX_PARTS
from scheduler.objects.node_selectors import (
    MAX_REMEMBERED_TERMS,
    NodeSelector,
    NodeSelectorTerm,
    parse_node_selector,
)
from scheduler.objects.node_selectors import parse_in_steps as parse_node_selector_in_steps
from scheduler.objects.requirements import Operator, Requirement, in_order
from scheduler.objects.selector_fields import LabelSelector, NodeSelectorFields, TopologySelectorTerm
from scheduler.objects.selectors import EVERYTHING, Selector, SelectorError, parse_selector_in_steps
from scheduler.objects.steps import Steps, run_to_end
from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

MAX_KEPT_PARTS: Final = 250_000
"""Terms, requirements and values of the long selectors of one kind that are kept parsed: 30 to 40 MB with what they
were parsed from, 110 MB where they are values. One object of 1.5 MB has up to 190,000 of them."""

_Topologies = tuple[TopologySelectorTerm, ...]
_TERMS_A_STEP = 1_000
"""Of a class's topologies: 1 to 3 ms."""

Written = TypeVar("Written")
Parsed = TypeVar("Parsed")


class _Parser(Generic[Written, Parsed]):
    """Parses the selectors of one kind, and keeps the long ones that were used last, by the identity of what they were
    parsed from."""

    def __init__(self, parse: Callable[[Written], Steps[Parsed]], parts: Callable[[Written], Iterable[int]]) -> None:
        """``parts`` yields the number of terms, requirements and values, a few at a time."""
        self._parse = parse
        self._parts = parts
        self._kept: OrderedDict[int, tuple[Written, Parsed, int]] = OrderedDict()
        self._kept_parts = 0

    def is_long(self, written: Written | None) -> bool:
        if written is None:
            return False
        count = 0
        for more in self._parts(written):
            count += more
            if count > MAX_PARTS:
                return True
        return False

    def __call__(self, written: Written) -> Parsed:
        return run_to_end(self.in_steps(written) if self.is_long(written) else self._parse(written))

    def ahead(self, written: Written | None) -> Steps[None]:
        """Parse a selector with pauses if it is long."""
        if written is not None and self.is_long(written):
            yield from self.in_steps(written)

    def in_steps(self, written: Written) -> Steps[Parsed]:
        """The parsed form of a long selector, with pauses unless it is kept."""
        key = id(written)
        if (known := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return known[1]
        parsed = yield from self._parse(written)
        if key not in self._kept:  # Others may have asked in a pause.
            count = sum(self._parts(written))
            self._kept[key] = (written, parsed, count)
            self._kept_parts += count
            while self._kept_parts > MAX_KEPT_PARTS and len(self._kept) > 1:
                _, (_, _, fewer) = self._kept.popitem(last=False)
                self._kept_parts -= fewer
        return parsed


def is_long_affinity(written: NodeSelectorFields) -> bool:
    """Whether to parse a volume's node affinity, or to keep it, costs much."""
    return _AFFINITIES.is_long(written)


def size_of(selector: NodeSelector) -> int:
    """The terms, requirements and values of a parsed selector."""
    return sum([1 + sum([1 + len(part.values) for part in term.expressions]) for term in selector.terms])


def has_long_selector(
    claim: PersistentVolumeClaim, volume: PersistentVolume | None, storage_class: StorageClass | None
) -> bool:
    """Whether to parse the selectors of these objects takes long."""
    return (
        _LABELS.is_long(claim.spec.selector)
        or _AFFINITIES.is_long(_affinity_of(volume))
        or (storage_class is not None and _TOPOLOGIES.is_long(storage_class.allowed_topologies))
    )


def parse_in_steps(
    claim: PersistentVolumeClaim, volume: PersistentVolume | None, storage_class: StorageClass | None
) -> Steps[None]:
    """Parse the long selectors of these objects, with pauses; they are kept for those who ask next."""
    yield from _LABELS.ahead(claim.spec.selector)
    yield from _AFFINITIES.ahead(_affinity_of(volume))
    if storage_class is not None:
        yield from _TOPOLOGIES.ahead(storage_class.allowed_topologies)


# --- volumes ----------------------------------------------------------------------------------------------------------


def node_affinity_of(volume: PersistentVolume) -> NodeSelector | None:
    """The node affinity of a volume; None if every node can use it."""
    written = _affinity_of(volume)
    return None if written is None else _AFFINITIES(written)


def _affinity_of(volume: PersistentVolume | None) -> NodeSelectorFields | None:
    affinity = None if volume is None else volume.spec.node_affinity
    return None if affinity is None else affinity.required


def _parsed_affinity(written: NodeSelectorFields) -> Steps[NodeSelector]:
    if len(written.node_selector_terms) <= MAX_REMEMBERED_TERMS:
        selector = parse_node_selector(written)
    else:
        selector = yield from parse_node_selector_in_steps(written)
    if not any(term.fields for term in selector.terms):
        return selector
    # A volume's requirements on fields of the node are not looked at.
    return NodeSelector(tuple([NodeSelectorTerm(term.expressions, (), term.faults) for term in selector.terms]))


def _affinity_parts(written: NodeSelectorFields) -> Iterator[int]:
    for term in written.node_selector_terms:
        yield 1 + len(term.match_fields)
        for part in term.match_expressions:
            yield 1 + len(part.values)


_AFFINITIES = _Parser(_parsed_affinity, _affinity_parts)


# --- claims -----------------------------------------------------------------------------------------------------------


def labels_wanted_by(claim: PersistentVolumeClaim) -> Selector:
    """The labels that a claim wants of its volume. Raises SelectorError."""
    if claim.spec.selector is None:
        return EVERYTHING
    found = _LABELS(claim.spec.selector)
    if isinstance(found, str):
        raise SelectorError(found)
    return found


def _parsed_labels(written: LabelSelector) -> Steps[Selector | str]:
    """A text: what is wrong with it."""
    try:
        return (yield from parse_selector_in_steps(written))
    except SelectorError as error:
        return str(error)


def _label_parts(written: LabelSelector) -> Iterator[int]:
    yield 2 * len(written.match_labels)
    for part in written.match_expressions:
        yield 1 + len(part.values)


_LABELS = _Parser(_parsed_labels, _label_parts)


# --- classes ----------------------------------------------------------------------------------------------------------


def topologies_of(storage_class: StorageClass) -> NodeSelector | None:
    """Where volumes of the class can be made; None if everywhere. Empty terms allow no node."""
    return _TOPOLOGIES(storage_class.allowed_topologies) if storage_class.allowed_topologies else None


def _parsed_topologies(written: _Topologies) -> Steps[NodeSelector]:
    terms: list[NodeSelectorTerm] = []
    for number, term in enumerate(written, start=1):
        if term.match_label_expressions:
            parts = [Requirement(part.key, Operator.IN, in_order(part.values)) for part in term.match_label_expressions]
            terms.append(NodeSelectorTerm(tuple(parts)))
        if number % _TERMS_A_STEP == 0:
            yield
    return NodeSelector(tuple(terms))


def _topology_parts(written: _Topologies) -> Iterator[int]:
    for term in written:
        yield 1
        for part in term.match_label_expressions:
            yield 1 + len(part.values)


_TOPOLOGIES = _Parser(_parsed_topologies, _topology_parts)
