"""The sections and traps that docstrings, comments and pages cite exist in ``docs/kube-scheduler``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTES = ROOT / "docs" / "kube-scheduler"
READERS = ("scheduler", "tests", "e2e", "examples", "docs", "README.md", "CONTRIBUTING.md")

CITATION = re.compile(r"(?P<page>[a-z]+\.md)(?P<sections>(?:,?\s+§[\d.]+\d|,?\s+§\d|[-–]§?\d[\d.]*)+)")
PLACE = re.compile(r"\d+(?:\.\d+)*")
TRAP = re.compile(r"\btraps? (?P<first>\d+)(?:(?:,| and) (?P<second>\d+))?")


def texts() -> Iterator[tuple[Path, str]]:
    for reader in READERS:
        path = ROOT / reader
        files = [path] if path.is_file() else sorted([*path.rglob("*.py"), *path.rglob("*.md")])
        for file in files:
            if NOTES not in file.parents:
                yield file.relative_to(ROOT), file.read_text()


def sections_of(page: str) -> set[str]:
    return set(re.findall(r"^#{2,3} (\d+(?:\.\d+)*)\.? ", (NOTES / page).read_text(), re.M))


def citations() -> list[tuple[str, str, str]]:
    """(file, page, section) of every citation of a page of these notes."""
    pages = {path.name for path in NOTES.glob("*.md")}
    return [
        (str(file), found["page"], section)
        for file, text in texts()
        for found in CITATION.finditer(text)
        if found["page"] in pages
        for section in PLACE.findall(found["sections"])
    ]


def test_every_cited_section_exists() -> None:
    found = citations()
    assert len(found) > 60, "the pattern finds the citations"
    known = {page: sections_of(page) for page in {page for _, page, _ in found}}
    assert [one for one in found if one[2] not in known[one[1]]] == []


def test_every_cited_trap_exists() -> None:
    traps = set(re.findall(r"^\| (\d+) \|", (NOTES / "traps.md").read_text(), re.M))
    cited = {
        (str(file), number)
        for file, text in texts()
        if file.suffix == ".py"
        for found in TRAP.finditer(text)
        for number in (found["first"], found["second"])
        if number
    }
    assert cited, "the pattern finds the citations"
    assert [one for one in sorted(cited) if one[1] not in traps] == []


def test_docstrings_cite_pages_by_their_path() -> None:
    assert [str(file) for file, text in texts() if re.search(r"\breference [a-z]+\.md", text)] == []


@pytest.mark.parametrize("page", sorted(path.name for path in NOTES.glob("*.md")))
def test_links_between_the_pages_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (NOTES / page).read_text())
    assert [link for link in links if not (NOTES / link).exists()] == []
