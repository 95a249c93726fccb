"""Node selectors: required and preferred node affinity (docs/kube-scheduler/plugins.md §2.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from scheduler.objects.memo import MAX_PARTS, has_many_parts, memo
from scheduler.objects.pod import Pod
from scheduler.objects.requirements import Operator, Requirement, in_order
from scheduler.objects.selector_fields import (
    NodeSelectorFields,
    PreferredSchedulingTerm,
    SelectorExpression,
    TopologySelectorTerm,
)
from scheduler.objects.selectors import SelectorError, are_faultless, joined, requirement_faults
from scheduler.objects.steps import Steps, run_to_end

NODE_NAME_FIELD = "metadata.name"

_OPERATORS = {operator.value: operator for operator in Operator}
_OPERATORS_TEXT = ", ".join(f'"{name}"' for name in sorted(_OPERATORS))
_FIELD_OPERATORS = {"In": Operator.IN, "NotIn": Operator.NOT_IN}


class NodeSelectorTerm(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A term, all of whose requirements must match. With `faults` it is invalid, and matches nothing.

    `node_names`: the names that satisfy its `metadata.name In [...]` fields, None if the term names no nodes. They
    restrict the search to those nodes, so terms with faults, such as several values, have them as well.
    """

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    faults: tuple[str, ...] = ()
    node_names: frozenset[str] | None = None

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Whether the term matches. Without a node name the requirements on fields are ignored."""
        if self.faults:
            return False
        for requirement in self.expressions:
            if not requirement.matches(labels):
                return False
        if node_name and self.fields:
            fields = {NODE_NAME_FIELD: node_name}
            for requirement in self.fields:
                # A field that doesn't exist reads as the empty string: unlike a label, it is never absent.
                value = fields.get(requirement.key, "")
                if (value in requirement.values) is not (requirement.operator is Operator.IN):
                    return False
        return True


class NodeSelector(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A selector, one of whose terms must match; empty terms match nothing and have been left out.

    `node_names`: None if a node of any name may match, else the names of all nodes that may (possibly none).
    """

    terms: tuple[NodeSelectorTerm, ...] = ()
    node_names: frozenset[str] | None = None

    def matches(self, labels: Mapping[str, str], node_name: str = "") -> bool:
        for term in self.terms:  # noqa: SIM110 - a loop, for speed: this runs once per node
            if term.matches(labels, node_name):
                return True
        return False

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of its terms; terms without faults stay usable."""
        return tuple([fault for term in self.terms for fault in term.faults])

    def evaluate(self, labels: Mapping[str, str], node_name: str = "") -> bool:
        """As `matches`, but raises `SelectorError` if nothing matched and some term has faults."""
        if self.matches(labels, node_name):
            return True
        faults = self.faults
        if faults:
            raise SelectorError(joined(list(faults)))
        return False


class PreferredTerm(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    weight: int
    term: NodeSelectorTerm


class RequiredNodeAffinity(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """All that a pod requires of a node's labels and name: its `nodeSelector` and its required node affinity.

    `labels`: pairs of the `nodeSelector`, sorted. `selector`: None if there is no required affinity.
    """

    labels: tuple[tuple[str, str], ...] = ()
    selector: NodeSelector | None = None

    @property
    def is_everything(self) -> bool:
        return not self.labels and self.selector is None

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        for key, value in self.labels:
            if labels.get(key) != value:
                return False
        return self.selector is None or self.selector.matches(labels, node_name)

    def evaluate(self, labels: Mapping[str, str], node_name: str) -> bool:
        """As `matches`, but raises `SelectorError` if nothing matched and some term has faults."""
        for key, value in self.labels:
            if labels.get(key) != value:
                return False
        return self.selector is None or self.selector.evaluate(labels, node_name)


# --- parsing ----------------------------------------------------------------------------------------------------------

_Written = tuple[tuple[str, str, tuple[str, ...]], ...]
_ANY_NODE = RequiredNodeAffinity()

MAX_REMEMBERED_TERMS = MAX_PARTS
"""Longer selectors are parsed each time."""

PARTS_A_SLICE = 3_000
"""Terms, requirements and values that are parsed between two pauses: a term with a value is three, in 5 to 15 µs."""


def parse_node_selector(written: NodeSelectorFields) -> NodeSelector:
    """The selector, parsed. Never raises: what is wrong with a term is kept in the term."""
    if len(written.node_selector_terms) > MAX_REMEMBERED_TERMS:
        return run_to_end(parse_in_steps(written))
    terms = tuple([(_plain(t.match_expressions), _plain(t.match_fields)) for t in written.node_selector_terms])
    return _parse_terms(terms)


def parse_in_steps(written: NodeSelectorFields) -> Steps[NodeSelector]:
    """``parse_node_selector`` with pauses, for selectors with many terms."""
    terms: list[NodeSelectorTerm] = []
    named: list[frozenset[str] | None] = []
    parts = 0
    for index, term in enumerate(written.node_selector_terms):
        expressions, fields = _plain(term.match_expressions), _plain(term.match_fields)
        _parse_into(terms, named, index, expressions, fields)
        parts += 1 + _parts(expressions, fields)
        if parts > PARTS_A_SLICE:
            parts = 0
            yield
    return _selector(terms, named)


def required_node_affinity(pod: Pod) -> RequiredNodeAffinity:
    """The pod's node selector and required node affinity, parsed. Never raises: what is wrong with a term is kept in
    the term."""
    affinity = pod.node_affinity
    required = affinity.required if affinity is not None else None
    labels = pod.spec.node_selector
    if required is None:
        return RequiredNodeAffinity(tuple(sorted(labels.items()))) if labels else _ANY_NODE
    return required_with(pod, parse_node_selector(required))


def required_with(pod: Pod, selector: NodeSelector) -> RequiredNodeAffinity:
    """The pod's ``nodeSelector`` together with the parsed selector of its required node affinity."""
    return RequiredNodeAffinity(tuple(sorted(pod.spec.node_selector.items())), selector)


def parse_preferred_terms(written: Iterable[PreferredSchedulingTerm]) -> tuple[PreferredTerm, ...]:
    """The terms that can add to a score. Weightless and empty ones are left out before anything is checked.

    Raises `SelectorError` if any of the others has a fault.
    """
    return run_to_end(preferred_in_steps(tuple(written)))


def preferred_in_steps(written: Sequence[PreferredSchedulingTerm]) -> Steps[tuple[PreferredTerm, ...]]:
    """``parse_preferred_terms`` with pauses, for many terms."""
    terms: list[PreferredTerm] = []
    faults: list[str] = []
    parts = 0
    parse = _parse_term if len(written) <= MAX_REMEMBERED_TERMS else _new_term
    for index, preferred in enumerate(written):
        preference = preferred.preference
        if preferred.weight == 0 or preference.is_empty:
            continue
        expressions, fields = _plain(preference.match_expressions), _plain(preference.match_fields)
        term = parse(expressions, fields, f"[{index}]")
        faults += term.faults
        terms.append(PreferredTerm(preferred.weight, term))
        parts += 1 + _parts(expressions, fields)
        if parts > PARTS_A_SLICE:
            parts = 0
            yield
    if faults:
        raise SelectorError(joined(faults))
    return tuple(terms)


def preferred_score(terms: Iterable[PreferredTerm], labels: Mapping[str, str], node_name: str) -> int:
    """The sum of the weights of the terms that match."""
    return sum(preferred.weight for preferred in terms if preferred.term.matches(labels, node_name))


def topology_matches(terms: tuple[TopologySelectorTerm, ...], labels: Mapping[str, str]) -> bool:
    """Whether a node's labels satisfy a StorageClass's `allowedTopologies`: one term, all of its expressions.

    No terms allow every node; an empty term allows none.
    """
    if not terms:
        return True
    return any(
        term.match_label_expressions
        and all(labels.get(part.key) in part.values for part in term.match_label_expressions)
        for term in terms
    )


def _plain(expressions: tuple[SelectorExpression, ...]) -> _Written:
    if not expressions:
        return ()
    return tuple([(part.key, part.operator, part.values) for part in expressions])


def _parts(expressions: _Written, fields: _Written) -> int:
    return sum([1 + len(values) for _, _, values in expressions]) + sum([1 + len(values) for _, _, values in fields])


def _is_long(terms: tuple[tuple[_Written, _Written], ...]) -> bool:
    return len(terms) > MAX_PARTS or sum([_parts(*term) for term in terms]) > 2 * MAX_PARTS


@memo(2048, _is_long)
def _parse_terms(written: tuple[tuple[_Written, _Written], ...]) -> NodeSelector:
    terms: list[NodeSelectorTerm] = []
    named: list[frozenset[str] | None] = []
    for index, (expressions, fields) in enumerate(written):
        _parse_into(terms, named, index, expressions, fields)
    return _selector(terms, named)


def _parse_into(
    terms: list[NodeSelectorTerm],
    named: list[frozenset[str] | None],
    index: int,
    expressions: _Written,
    fields: _Written,
) -> None:
    named.append(_named_nodes(fields))
    if expressions or fields:
        terms.append(_new_term(expressions, fields, f"nodeSelectorTerms[{index}]"))


def _selector(terms: list[NodeSelectorTerm], named: list[frozenset[str] | None]) -> NodeSelector:
    """``named``: the nodes that each term names, empty terms included."""
    names = [each for each in named if each is not None]
    return NodeSelector(tuple(terms), frozenset().union(*names) if named and len(names) == len(named) else None)


@memo(2048, lambda expressions, fields, _: _parts(expressions, fields) > MAX_PARTS)
def _parse_term(expressions: _Written, fields: _Written, path: str) -> NodeSelectorTerm:
    return _new_term(expressions, fields, path)


def _new_term(expressions: _Written, fields: _Written, path: str) -> NodeSelectorTerm:
    faults: list[str] = []
    requirements: list[Requirement] = []
    if has_many_parts(expressions) and are_faultless(expressions, _OPERATORS):
        requirements = [Requirement(key, _OPERATORS[name], in_order(values)) for key, name, values in expressions]
        expressions = ()
    for index, (key, written_operator, values) in enumerate(expressions):
        at = f"{path}.matchExpressions[{index}]"
        operator = _OPERATORS.get(written_operator)
        if operator is None:
            faults.append(
                f'{at}.operator: Unsupported value: "{written_operator}": supported values: {_OPERATORS_TEXT}'
            )
            continue
        faults += requirement_faults(key, operator, values, at)
        requirements.append(Requirement(key, operator, in_order(values)))
    field_requirements: list[Requirement] = []
    for index, (key, written_operator, values) in enumerate(fields):
        at = f"{path}.matchFields[{index}]"
        operator = _FIELD_OPERATORS.get(written_operator)
        if operator is None:
            faults.append(f'{at}.operator: Unsupported value: "{written_operator}": supported values: "In", "NotIn"')
        elif len(values) != 1:
            faults.append(f"{at}.values: Invalid value: {_go_list(values)}: must have one element")
        else:
            field_requirements.append(Requirement(key, operator, values))
    return NodeSelectorTerm(tuple(requirements), tuple(field_requirements), tuple(faults), _named_nodes(fields))


def _named_nodes(fields: _Written) -> frozenset[str] | None:
    """The names that all `metadata.name In` fields have in common, however many values each has; None without any."""
    if not fields:
        return None
    named: frozenset[str] | None = None
    for key, operator, values in fields:
        if key == NODE_NAME_FIELD and operator == "In":
            named = frozenset(values) if named is None else named & frozenset(values)
    return named


def _go_list(values: tuple[str, ...]) -> str:
    return "[" + ",".join(f'"{value}"' for value in values) + "]"
