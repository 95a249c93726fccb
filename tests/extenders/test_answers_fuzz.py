"""Whatever an extender answers is either read or is a fault of that extender, with its name."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.extenders.answers import MAX_TEXT_CHARACTERS, ExtenderError
from scheduler.extenders.extender import MAX_SCORE, FilterAnswer, VictimsAnswer
from tests.extenders.test_extender import URL, extender

NODES = ("a", "b")
KEYS = st.sampled_from(
    [
        "NodeNames",
        "nodenames",
        "Nodes",
        "items",
        "FailedNodes",
        "FAILEDNODES",
        "FailedAndUnresolvableNodes",
        "Error",
        "error",
        "metadata",
        "name",
        "Host",
        "Score",
        "NodeNameToMetaVictims",
        "Pods",
        "UID",
        "NumPDBViolations",
        "a",
        "b",
    ]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(NODES),
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """JSON of the protocol's words; some of it cut off, with bytes put in, or nested deep."""
    document: bytes = _encoded(draw(JSON))
    match draw(st.sampled_from(["whole", "cut", "dirty", "deep", "long"])):
        case "cut":
            return document[: draw(st.integers(0, len(document)))]
        case "dirty":
            place = draw(st.integers(0, len(document)))
            return document[:place] + draw(st.binary(min_size=1, max_size=3)) + document[place:]
        case "deep":
            depth = draw(st.sampled_from([500, 1_000, 20_000]))
            return b'{"%s":' % draw(KEYS).encode() * depth + document + b"}" * depth
        case "long":
            return b'{"Error": "%s"}' % (b"x" * draw(st.integers(0, 3 * MAX_TEXT_CHARACTERS)))
    return document


def _encoded(value: Any) -> bytes:
    # Integers beyond 64 bits and lone surrogates are what msgspec does not write: extenders may.
    return json.dumps(value).encode()


@pytest.mark.parametrize("capable", [True, False])
@settings(max_examples=300)
@given(document=st.one_of(documents(), st.binary(max_size=40)))
def test_an_answer_is_read_or_is_the_extender_s_fault(capable: bool, document: bytes) -> None:
    one = extender(node_cache_capable=capable)
    with _faults():
        answer = one.read_filter(document, NODES)
        assert isinstance(answer, FilterAnswer)
        assert {*answer.passed, *answer.failed, *answer.unresolvable} <= set(NODES)
        assert all(
            len(text) <= MAX_TEXT_CHARACTERS for text in (*answer.failed.values(), *answer.unresolvable.values())
        )
    with _faults():
        assert all(abs(score) <= MAX_SCORE for score in one.read_scores(document).values())
    with _faults():
        one.read_bind(document)
    with _faults():
        victims = one.read_victims(document)
        assert all(isinstance(node, str) and isinstance(left, VictimsAnswer) for node, left in victims.items())


@contextlib.contextmanager
def _faults() -> Any:
    try:
        yield
    except ExtenderError as error:
        text = str(error)
        assert len(text) <= MAX_TEXT_CHARACTERS + 200
        # Messages are sent to the API server and to logs: they must be texts that can be encoded.
        msgspec.json.encode(text)


def test_a_lone_surrogate_never_gets_into_a_message() -> None:
    with pytest.raises(ExtenderError, match=URL):
        extender().read_bind(b'{"Error": "\\ud800"}')
