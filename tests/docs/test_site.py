"""The documentation's site: every page is on it, every link leads somewhere, and it is made of the same pages."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import DOCS, ROOT

CONFIGURATION = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def pages(entries: list[Any]) -> list[str]:
    """The files that a navigation names, those of its folders included."""
    found: list[str] = []
    for entry in entries:
        for value in entry.values():
            found += pages(value) if isinstance(value, list) else [value]
    return found


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a page that is not in the navigation or a broken link is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={folder}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_of_docs_is_in_the_navigation() -> None:
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert sorted(pages(CONFIGURATION["nav"])) == sorted(there | {"index.md"})


def test_it_is_built_without_a_warning_and_has_every_page(site: Path) -> None:
    for page in pages(CONFIGURATION["nav"]):
        name = page.removesuffix(".md").removesuffix("README").removesuffix("index").rstrip("/")
        assert (site / name / "index.html").is_file(), page


def test_the_first_page_is_the_readme_with_links_into_the_site(site: Path) -> None:
    html = (site / "index.html").read_text()
    assert "a second scheduler for Kubernetes" in html
    assert 'href="differences/"' in html
    source = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    linked = re.findall(rf'href="{re.escape(source)}([^"#]*)', html)
    assert "CONTRIBUTING.md" in linked
    assert all((ROOT / path).exists() for path in linked)


def test_runbooks_are_where_the_alerts_say(site: Path) -> None:
    alerts = (ROOT / "manifests" / "overlays" / "monitoring" / "alerts.yaml").read_text()
    html = (site / "runbooks" / "index.html").read_text()
    urls = re.findall(r"runbook_url: (\S+)", alerts)
    assert urls
    for url in urls:
        page, _, anchor = url.removeprefix(CONFIGURATION["site_url"]).partition("#")
        assert page == "runbooks/" and f'id="{anchor}"' in html


def test_the_address_is_that_of_the_package() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert CONFIGURATION["site_url"] == urls["Documentation"]
