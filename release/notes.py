"""``python -m release.notes``: what CHANGELOG.md says about the present version, for the page of the release."""

from __future__ import annotations

import sys

from release.version import current, notes

if __name__ == "__main__":
    text = notes(current())
    print(text)
    sys.exit(0 if text else 1)
