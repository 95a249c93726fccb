"""A hook of mkdocs: README.md is the first page, and links that leave docs/ lead to the source.

Both keep one text for the repository and the site.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
SOURCE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]
FIRST_PAGE = "index.md"

_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)([^)]*)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add README.md as the page that a visitor sees first."""
    files.append(File.generated(config, FIRST_PAGE, content=(ROOT / "README.md").read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """The page with links that lead somewhere on the site, or to the source."""
    here = "." if page.file.src_uri == FIRST_PAGE else posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def replace(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, link[1]))
        if target == "README.md":
            return f"]({relative(FIRST_PAGE)}{link[2]})"
        if target.startswith("docs/"):
            return f"]({relative(target.removeprefix('docs/'))}{link[2]})"
        return f"]({SOURCE}{target}{link[2]})"

    def relative(target: str) -> str:
        return posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".")

    return _LINK.sub(replace, markdown)
