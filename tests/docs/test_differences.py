"""``docs/differences.md`` lists each difference on purpose, with its reason and a test that is there."""

from __future__ import annotations

import ast
import re

from scheduler.config.tandem import TandemConfiguration
from tests.docs.pages import DOCS, ROOT, anchor, headings
from tests.docs.test_settings_page import settings
from tests.queue.vectors import DIFFERENCES, GATED_FLUSH, RELEASE

PAGE = (DOCS / "differences.md").read_text()
NOTES = sorted((DOCS / "kube-scheduler").glob("*.md"))
ENTRIES = {
    anchor(title): body for title, body in re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
PARTS = ("kube-scheduler", "Tandem", "Why", "Test")

_MARK = re.compile(r"\*\*Tandem\*\*(?! marks a difference)(?: \(\[difference\]\(\.\./differences\.md#([\w-]+)\)\))?")


def test_every_mark_of_a_difference_leads_to_its_entry() -> None:
    marks = [(page.name, found[1]) for page in NOTES for found in _MARK.finditer(page.read_text())]
    assert len(marks) > 20, "the pattern finds the marks"
    assert [mark for mark in marks if mark[1] not in ENTRIES] == [], "a mark without a link, or a link without an entry"


def test_every_entry_says_what_both_do_why_and_which_test_holds_it() -> None:
    assert len(ENTRIES) > 30
    for name, body in ENTRIES.items():
        assert tuple(re.findall(r"^- \*\*([\w-]+)\*\*: \S", body, re.MULTILINE)) == PARTS, name


def test_every_test_that_is_named_is_there() -> None:
    for name, body in ENTRIES.items():
        (path, function) = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", body)[-1]
        tree = ast.parse((ROOT / path).read_text())
        assert function in {
            each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        }, name


def test_every_setting_of_ours_that_can_change_a_decision_is_in_an_entry() -> None:
    """Those that only bound memory, or that kube-scheduler has as a flag, change none."""
    others = ("plugins", "podMaxInUnschedulablePodsDuration")
    names = [name for name, _ in settings(TandemConfiguration()) if not name.startswith("limits.")]
    named = set(re.findall(r"`([\w.]+)", "".join(ENTRIES.values())))
    assert [name for name in names if name not in named and name not in others] == []


def test_no_two_headings_have_one_anchor() -> None:
    anchors = [anchor(title) for title in headings(PAGE)]
    assert len(anchors) == len(set(anchors))


def test_what_the_recorded_sequences_are_allowed_to_differ_in_is_an_entry() -> None:
    entries = {
        GATED_FLUSH: "gated-pods-and-the-flush",
        RELEASE: "nominated-pod-that-ends-up-on-another-node",
    }
    assert {reason for _, reason in DIFFERENCES.values()} == entries.keys()
    assert set(entries.values()) <= ENTRIES.keys()
