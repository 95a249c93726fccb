"""The version, in one place: ``pyproject.toml``. Everything else that bears it is written from there.

``python -m release.version`` checks; ``python -m release.version 0.2.0`` sets a new one everywhere, and dates its
section of CHANGELOG.md. Exit code 1 where a place differs, or the changelog has nothing to say about the version.
"""

from __future__ import annotations

import datetime
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNRELEASED = "Unreleased"

_VERSION = r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?"


@dataclass(frozen=True, slots=True)
class Place:
    """A file that bears the version. ``pattern``: what is before it; every match in the file is one."""

    file: str
    pattern: str

    def found(self) -> list[str]:
        return re.findall(f"{self.pattern}({_VERSION})", self._text(), re.MULTILINE)

    def write(self, version: str) -> None:
        text = re.sub(f"({self.pattern}){_VERSION}", rf"\g<1>{version}", self._text(), flags=re.MULTILINE)
        (ROOT / self.file).write_text(text)

    def _text(self) -> str:
        return (ROOT / self.file).read_text()


SOURCE = Place("pyproject.toml", r'^version = "')
PLACES = (
    SOURCE,
    Place("charts/tandem-scheduler/Chart.yaml", r"^(?:appVersion|version): "),
    *(
        Place(file, "tandem-scheduler:")
        for file in (
            "manifests/base/deployment.yaml",
            "Dockerfile",
            "README.md",
            "docs/install.md",
            "docs/operations.md",
            "docs/plugins.md",
        )
    ),
)


def current() -> str:
    version: str = tomllib.loads((ROOT / SOURCE.file).read_text())["project"]["version"]
    return version


def faults() -> list[str]:
    """Every place that bears another version or none, and a changelog without the version."""
    version = current()
    found = [
        f"{place.file}: {', '.join(sorted(set(place.found()))) or 'no version'} instead of {version}"
        for place in PLACES
        if set(place.found()) != {version}
    ]
    if not notes(version):
        found.append(f"CHANGELOG.md: nothing about {version}")
    return found


def notes(version: str) -> str:
    """What the changelog says about a version; empty where it has no section of it."""
    text = (ROOT / "CHANGELOG.md").read_text()
    match = re.search(rf"^## {re.escape(version)}(?: \([\d-]+\))?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def set_version(version: str, today: datetime.date) -> None:
    """Write the version everywhere, and name what the changelog calls unreleased after it. Raises ValueError."""
    if not re.fullmatch(_VERSION, version):
        raise ValueError(f"{version!r} is no version: MAJOR.MINOR.PATCH, with aN, bN or rcN behind it")
    changelog = ROOT / "CHANGELOG.md"
    text = changelog.read_text()
    if not notes(UNRELEASED):
        raise ValueError(f"CHANGELOG.md has nothing under {UNRELEASED}")
    changelog.write_text(text.replace(f"## {UNRELEASED}\n", f"## {UNRELEASED}\n\n## {version} ({today})\n", 1))
    for place in PLACES:
        place.write(version)


def main(arguments: list[str]) -> int:
    try:
        if arguments:
            set_version(arguments[0], datetime.datetime.now(tz=datetime.UTC).date())
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    found = faults()
    for fault in found:
        print(f"error: {fault}", file=sys.stderr)
    if not found:
        print(current())
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
