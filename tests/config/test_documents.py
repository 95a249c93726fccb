"""Text to plain values."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.config.documents import MAX_EVENTS, MAX_VALUES, read_documents, read_value, read_values
from scheduler.errors import ConfigurationError


def content(text: str) -> dict[str, Any]:
    (document,) = read_documents(text)
    return document.content


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"),
        ("2024-01-02", "2024-01-02"),
        ("0x10", 16),
        ("010", 8),
        ("1_000", 1000),
        ("-5", -5),
        ("1.5", 1.5),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("'5'", "5"),
        ("15s", "15s"),
        ("y", True),
        ("N", False),
        ("'y'", "y"),
        ("!!str n", "n"),
        ("5.0", 5),
        ("1e1", 10),
        ("1e300", 1e300),
        ("1e999", "1e999"),
        ("0o17", 15),
        ("08", 8),
        ("_1", "_1"),
    ],
)
def test_scalars_are_read_as_kubernetes_reads_them(text: str, value: object) -> None:
    assert content(f"a: {text}") == {"a": value}


def test_duplicate_fields_are_found_with_their_paths_in_yaml_and_json() -> None:
    yaml_text = "a: 1\nb:\n- c: 1\n  c: 2\na: 3\n"
    json_text = '{"a": 1, "b": [{"c": 1, "c": 2}], "a": 3}'
    for text in (yaml_text, json_text):
        (document,) = read_documents(text)
        assert document.content == {"a": 3, "b": [{"c": 2}]}
        assert document.duplicates == ("b[0].c", "a")


def test_a_merge_brings_in_what_is_not_stated() -> None:
    assert content("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}")["b"] == {"p": 1, "q": 3}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{a: b}", "line 1, column 2"),
        ("{'a': 'b'}", "line 1, column 2"),
        ('{"a": [1,\n  2,]}', "line 2, column 5"),
        ('{"a": 1} {"b": 2}', "line 1, column 10"),
    ],
)
def test_what_begins_with_a_brace_is_held_to_json_s_rules_as_in_kube_scheduler(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_documents(text)
    assert str(caught.value).startswith("what begins with { must be JSON: ") and reason in str(caught.value)


def test_a_flow_mapping_inside_of_yaml_stays_yaml() -> None:
    assert content("top: {a: b, c: [d]}") == {"top": {"a": "b", "c": ["d"]}}


def test_empty_documents_are_left_out() -> None:
    assert [document.content for document in read_documents("---\n---\na: 1\n---\n# nothing\n")] == [{"a": 1}]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- a", "a document must be a mapping, got a list"),
        ("just text", "a document must be a mapping, got a string"),
        (
            "a: [",
            "error converting YAML to JSON: yaml: while parsing a flow node did not find expected node content at line",
        ),
        ("a: !!binary aGk=", "a: the YAML tag tag:yaml.org,2002:binary is not supported"),
        ("? [a]\n: b", "keys must be plain text"),
        ("a: &a [*a]", "the text is nested deeper than 100 levels"),
    ],
)
def test_text_that_is_no_configuration_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_documents(text)
    assert str(caught.value).startswith(fault)


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigurationError, match="holds more than 100000 values"):
        read_documents("\n".join(lines))


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        read_documents(b"a: \xff")


def test_a_text_of_any_size_is_read_and_its_aliases_may_not_make_more_of_it_than_its_size() -> None:
    large = b"[" + b"a, " * (MAX_EVENTS + 1) + b"]"
    assert [len(value) for value in read_values(large)] == [MAX_EVENTS + 1]
    shared = b"a: &a [" + b"x, " * 1_000 + b"]\nb: [" + b"*a, " * 50 + b"]\n"
    (value,) = read_values(shared)
    assert value["b"] == [value["a"]] * 50
    with pytest.raises(ConfigurationError, match=f"holds more than {MAX_VALUES} values"):
        list(read_values(shared + b"c: [" + b"*a, " * 60 + b"]\n"))


def test_the_values_of_all_documents_count_together() -> None:
    one = b"a: &a [" + b"x, " * 1_000 + b"]\nb: [" + b"*a, " * 60 + b"]\n"
    assert len(list(read_values(one))) == 1
    for read in (read_values, read_documents):
        with pytest.raises(ConfigurationError, match=f"holds more than {MAX_VALUES} values"):
            list(read(one + b"---\n" + one))


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"---\n", b"null"])
def test_a_text_that_holds_nothing_is_no_value(text: bytes) -> None:
    assert read_value(text) is None


def test_one_value_is_the_only_document() -> None:
    assert read_value("a: 1\n".encode("utf-16")) == {"a": 1}
    with pytest.raises(ConfigurationError, match="the text has 2 documents, where one is expected"):
        read_value(b"a: 1\n---\nb: 2\n")
