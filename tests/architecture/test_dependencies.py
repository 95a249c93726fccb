"""The import rules between packages, run as a test."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_packages_import_only_what_the_dependency_contract_allows() -> None:
    outcome = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
