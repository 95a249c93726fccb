"""``python -m release.sbom``: the bill of materials of the image, as CycloneDX JSON, from the pins it is built with.

Needs the extra ``release``. What is in the base image is not in it: ``docker buildx --sbom`` adds that at the build.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SPECIFICATION = "1.6"


def bill_of_materials() -> dict[str, Any]:
    """A component for each pinned package, with the hashes of its files. Raises CalledProcessError."""
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "requirements-runtime.txt"]
    options = ["--pyproject=pyproject.toml", f"--sv={SPECIFICATION}", "--output-reproducible", "--of=JSON"]
    made = subprocess.run([*command, *options], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    bill: dict[str, Any] = json.loads(made.stdout)
    for component in bill["components"]:
        del component["description"]  # the line of the pin with all its hashes, which are listed on their own
    return bill


if __name__ == "__main__":
    json.dump(bill_of_materials(), sys.stdout, indent=2)
