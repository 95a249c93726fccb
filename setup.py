"""The long description: README.md with links that lead somewhere outside the repository. All else: pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
SOURCE = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]


def absolute_links(text: str) -> str:
    """The same page; a link to a file of the repository names its address."""
    return re.sub(r"\]\((?!https?:|#)", f"]({SOURCE}", text)


setup(
    long_description=absolute_links((HERE / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
