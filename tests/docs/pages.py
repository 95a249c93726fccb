"""Markdown pages as the tests read them: headings, links, blocks, tables."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")


def anchor(heading: str) -> str:
    """The anchor that GitHub and the site give a heading."""
    return re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")


def headings(text: str) -> list[str]:
    """The headings of a page, those within blocks of code left out."""
    return re.findall(r"^#+ (.+)$", _BLOCK.sub("", text), re.MULTILINE)


def links(text: str) -> list[tuple[str, str]]:
    """(path, anchor) of each link to a file or a heading; either may be empty. Blocks of code are left out."""
    return _LINK.findall(_BLOCK.sub("", text))


def blocks(text: str, language: str) -> list[str]:
    """The blocks of this language, without their indentation."""
    return [
        "\n".join(line.removeprefix(indent) for line in body.splitlines()) + "\n"
        for indent, name, body in _BLOCK.findall(text)
        if name == language
    ]


def section(text: str, title: str) -> str:
    """What stands below this heading of the second level, up to the next."""
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
