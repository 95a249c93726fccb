"""Extenders are sent pods and nodes with all their fields, also those that nothing here reads."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.config.types import Extender as ExtenderConfiguration
from scheduler.extenders.documents import Documents, kinds_sent_whole
from scheduler.objects.kinds import Kind, decode
from scheduler.testing.documents import pod_json


def document(**metadata: Any) -> bytes:
    whole = pod_json("a")
    whole["metadata"] |= metadata
    whole["spec"]["dnsPolicy"] = "Default"
    return msgspec.json.encode(whole)


def sent(documents: Documents, data: bytes) -> Any:
    return msgspec.json.decode(documents.of(Kind.POD, decode(Kind.POD, data)))


def test_what_is_kept_is_what_the_api_server_sent_without_managed_fields() -> None:
    documents = Documents()
    data = document(managedFields=[{"manager": "kubectl"}], selfLink="/x")
    documents.put(Kind.POD, decode(Kind.POD, data), data)
    found = sent(documents, data)
    assert found["spec"]["dnsPolicy"] == "Default"
    assert found["metadata"].pop("selfLink") == "/x"
    assert "managedFields" not in found["metadata"]
    assert found == msgspec.json.decode(document())


def test_an_object_whose_json_is_not_at_hand_is_sent_as_far_as_it_was_read() -> None:
    documents = Documents()
    data = document()
    assert sent(documents, data)["metadata"]["name"] == "a"
    documents.put(Kind.POD, decode(Kind.POD, data), data)
    documents.put(Kind.POD, decode(Kind.POD, data), b"")
    assert "dnsPolicy" not in sent(documents, data)["spec"], "an older version is not sent"


def test_another_pod_of_the_same_name_is_never_sent_in_its_place() -> None:
    documents = Documents()
    old, new = document(uid="old"), document(uid="new")
    documents.put(Kind.POD, decode(Kind.POD, new), new)
    assert sent(documents, old)["metadata"]["uid"] == "old"
    documents.remove(Kind.POD, decode(Kind.POD, old))
    assert len(documents) == 1
    documents.remove(Kind.POD, decode(Kind.POD, new))
    assert len(documents) == 0


def test_only_kinds_that_some_extender_is_sent_are_kept() -> None:
    def kinds(**fields: Any) -> frozenset[Kind]:
        return kinds_sent_whole([ExtenderConfiguration(url_prefix="http://x", **fields)])

    assert kinds(filter_verb="filter") == {Kind.POD, Kind.NODE}
    assert kinds(prioritize_verb="prioritize", node_cache_capable=True) == {Kind.POD}
    assert kinds(preempt_verb="preempt") == {Kind.POD}
    assert kinds(bind_verb="bind") == set()
    assert kinds_sent_whole([]) == set()
