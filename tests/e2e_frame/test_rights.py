from __future__ import annotations

import pytest

from e2e.identities import REFERENCE_RULES, without


def allowed(rules: object, verb: str, resource: str) -> bool:
    return any(verb in rule["verbs"] and resource in rule["resources"] for rule in rules)  # type: ignore[attr-defined]


def test_one_verb_is_taken_from_one_resource_and_nothing_else() -> None:
    rules = without(REFERENCE_RULES, "list", "nodes")
    assert not allowed(rules, "list", "nodes")
    assert allowed(rules, "watch", "nodes")
    assert allowed(rules, "list", "services")


def test_the_only_verb_of_a_resource_takes_its_rule_away() -> None:
    assert not allowed(without(REFERENCE_RULES, "create", "pods/binding"), "create", "pods/binding")


def test_a_right_that_was_never_granted_cannot_be_taken_away() -> None:
    with pytest.raises(ValueError, match="never granted"):
        without(REFERENCE_RULES, "delete", "nodes")
