"""Selectors as the API encodes them, not validated. `selectors` parses them into values that match."""

from __future__ import annotations

import msgspec

from scheduler.objects.meta import ApiStruct


class SelectorExpression(ApiStruct, frozen=True):
    """One expression of a label selector, of a node selector term, or (without an operator: In) of a topology term."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(ApiStruct, frozen=True):
    """A label selector. A field with None instead has no selector, which differs from an empty one."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[SelectorExpression, ...] = ()


class NodeSelectorTermFields(ApiStruct, frozen=True):
    match_expressions: tuple[SelectorExpression, ...] = ()
    match_fields: tuple[SelectorExpression, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.match_expressions and not self.match_fields


class NodeSelectorFields(ApiStruct, frozen=True):
    node_selector_terms: tuple[NodeSelectorTermFields, ...] = ()


class PreferredSchedulingTerm(ApiStruct, frozen=True):
    weight: int = 0
    preference: NodeSelectorTermFields = NodeSelectorTermFields()


class TopologySelectorTerm(ApiStruct, frozen=True):
    """A term of a StorageClass's `allowedTopologies`: every label must exist with one of its values."""

    match_label_expressions: tuple[SelectorExpression, ...] = ()
