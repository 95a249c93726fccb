"""Files made to break the reader: each is reported as that file's fault, in bounded time."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.config.documents import MAX_BYTES, MAX_EVENTS
from scheduler.config.loading import load
from scheduler.errors import ConfigurationError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
JSON_HEAD = '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", '


def faults(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    return [str(fault) for fault in caught.value.faults]


TOO_DEEP = [
    HEAD + "profiles: " + "[" * 30_000,
    HEAD + "profiles: " + "[" * 30_000 + "]" * 30_000,
    HEAD + "profiles: " + "{a: " * 30_000,
    HEAD + "profiles:\n" + "".join(" " * depth + "-\n" for depth in range(1, 1_000)),
    JSON_HEAD + '"profiles": ' + "[" * 30_000 + "]" * 30_000 + "}",
    JSON_HEAD + '"profiles": ' + "[" * 500 + "]" * 500 + "}",
    HEAD + "a: &a [*a]",
]


def test_a_file_that_is_too_deep_is_refused_and_ends_no_process(tmp_path: Path) -> None:
    """In a separate process: an overflow of the C library's stack raises no exception."""
    for number, text in enumerate(TOO_DEEP):
        (tmp_path / f"{number}.yaml").write_text(text)
    files = [str(tmp_path / f"{number}.yaml") for number in range(len(TOO_DEEP))]
    script = "import sys; from scheduler.cli.main import main; [print(main(['check-config', f])) for f in sys.argv[1:]]"
    command = [sys.executable, "-c", script, *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["1"] * len(TOO_DEEP)), done.stderr
    assert done.stderr.count("nested deeper than 100 levels") == len(TOO_DEEP)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("parallelism: 1" + "0" * 5_000, "parallelism: a number of more than 64 characters (line 3, column 14)"),
        ("parallelism: 0x" + "f" * 9_000, "parallelism: a number of more than 64 characters (line 3, column 14)"),
        ("parallelism: !!float abc", 'parallelism: "abc" is no !!float (line 3, column 14)'),
        ("parallelism: !!bool abc", 'parallelism: "abc" is no !!bool (line 3, column 14)'),
        ("parallelism: !!python/object:os.system x", "parallelism: the YAML tag tag:yaml.org,2002:python/object"),
        ("parallelism: [", "error converting YAML to JSON: yaml: "),
    ],
)
def test_a_value_that_can_not_be_read_is_named_with_its_line_and_column(text: str, fault: str) -> None:
    (found,) = faults(HEAD + text)
    assert found.startswith(fault)


def test_numbers_and_texts_that_only_json_can_spell_are_refused_too() -> None:
    assert faults(JSON_HEAD + f'"parallelism": 1{"0" * 100}}}') == ["parallelism: a number of more than 64 characters"]
    assert faults(JSON_HEAD + '"profiles": [{"schedulerName": "\\ud800"}]}') == [
        "profiles[0].schedulerName: text that is not Unicode"
    ]


def test_a_file_that_is_too_large_is_not_even_parsed() -> None:
    assert faults(HEAD + "#" * MAX_BYTES) == [f"the text has more than {MAX_BYTES} bytes"]
    (many,) = faults(HEAD + "profiles: [" + "a," * MAX_EVENTS + "]")
    assert many.startswith(f"the text has more than {MAX_EVENTS} parts (line 3, column ")


def test_a_wrong_value_is_repeated_in_part() -> None:
    (found,) = faults(HEAD + "parallelism: " + "x" * 100_000)
    assert len(found) < 2_000


@pytest.mark.parametrize("text", ["", "\n", "# nothing but a comment\n", "---\n", "---\n---\n# x\n", "null", "~"])
def test_a_file_that_holds_nothing_is_refused_as_kube_scheduler_does(text: str) -> None:
    assert faults(text) == ["Object 'Kind' is missing"]


def test_no_file_at_all_is_all_defaults() -> None:
    assert load(None).kube.profiles


# --- fuzz -------------------------------------------------------------------------------------------------------------

MARKS = "[ ] { } , : - ? &a *a <<: !!float !!int !x | > ' \" # ~ .inf .nan 0x 1e999 1_0 10s true --- ... %YAML"
NAMES = "profiles parallelism extenders leaderElection clientConnection percentageOfNodesToScore plugins args other"
PIECES = st.sampled_from([*MARKS.split(), *NAMES.split(), " ", "\n", "\n  ", ":\n", "\t", "\\ud800", "\x00"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(NAMES.split())
FUZZ = settings(max_examples=100)


def reads_or_refuses(text: str | bytes) -> None:
    with contextlib.suppress(ConfigurationError):
        load(text)


@FUZZ
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    reads_or_refuses(data)


@FUZZ
@given(st.lists(PIECES, max_size=40).map("".join))
@example("!!float ")
def test_any_pieces_of_yaml_are_read_or_refused(text: str) -> None:
    reads_or_refuses(text)
    reads_or_refuses(HEAD + text)


@FUZZ
@given(st.dictionaries(FIELDS, VALUES, max_size=4))
def test_any_values_of_the_fields_are_read_or_refused(fields: dict[str, object]) -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    reads_or_refuses(json.dumps(head | fields))
