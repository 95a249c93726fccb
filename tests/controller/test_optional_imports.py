"""Imports without what a library takes along only because it is installed."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from scheduler.controller.optional_imports import without_optional
from tests.limits import WAIT_SECONDS

KOPF_STARTED = """
import asyncio, sys
from scheduler.controller.operator import KopfOperator, OperatorCallbacks, Proofs
from scheduler.controller.settings import OperatorOptions
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource

async def main():
    source = CredentialSource(ConnectionSettings(master="http://127.0.0.1:1"), {})
    proofs = Proofs(last_beat=lambda: 0.0, is_leading=lambda: True)
    operator = KopfOperator(OperatorOptions(), source, OperatorCallbacks(), proofs)
    operator.start()
    while not operator.is_ready:
        await asyncio.sleep(0.01)
    await operator.stop()

asyncio.run(main())
print(*sorted(sys.modules), sep="\\n")
"""


def test_kopf_runs_without_loading_the_client_librarys_models() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KOPF_STARTED], capture_output=True, text=True, timeout=WAIT_SECONDS * 4, check=True
    )
    modules = set(done.stdout.splitlines())
    assert "kopf" in modules
    assert not {name for name in modules if name.startswith("kubernetes_asyncio")}


def test_a_package_that_is_left_out_can_be_imported_by_other_threads_and_afterwards() -> None:
    package = "this"  # a module of the standard library that nothing loads
    assert package not in sys.modules
    found: list[str] = []

    def import_elsewhere() -> None:
        found.append(__import__(package).__name__)

    with without_optional(package):
        with pytest.raises(ModuleNotFoundError, match="is left out here"):
            __import__(package)
        other = threading.Thread(target=import_elsewhere)
        other.start()
        other.join(WAIT_SECONDS)
        assert __import__(package).__name__ == package, "loaded already: no effect"
    assert found == [package]
    del sys.modules[package]
    assert __import__(package).__name__ == package
