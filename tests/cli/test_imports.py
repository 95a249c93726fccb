"""What each command loads: the modules that a start must not pay for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.limits import WAIT_SECONDS

MODELS = "kubernetes_asyncio"
"""Any part of it imports the models of every API object: as much CPU as numpy and aiohttp together."""
CEL = ("cel_expr_python", "google.protobuf")
ENGINE = ("scheduler.engine.engine", "scheduler.compose", "scheduler.plugins.registry", "scheduler.cluster.table")
PROGRAM = """
import sys
from scheduler.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*sorted(sys.modules), sep="\\n")
"""


def loaded(*words: str, environment: dict[str, str] | None = None) -> set[str]:
    """Every module that is loaded when the command has ended."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS * 4,
        check=True,
        env=environment,
    )
    return set(done.stdout.splitlines())


def kubeconfig(folder: Path, server: str, **user: object) -> str:
    config = {
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
    }
    path = folder / "kubeconfig"
    path.write_bytes(msgspec.yaml.encode(config))
    return str(path)


def test_an_interrupt_while_the_commands_are_loaded_leaves_no_traceback() -> None:
    interrupting = (
        "import sys; from scheduler.__main__ import main\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'msgspec': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt()); sys.exit(main())"
    )
    command = [sys.executable, "-c", interrupting]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (answer.returncode, answer.stderr) == (130, "")


def test_version_loads_no_library_at_all() -> None:
    modules = loaded("version")
    heavy = {"numpy", "aiohttp", "argparse", "rich", "structlog", "kopf", "asyncio", "yaml", MODELS, *CEL, *ENGINE}
    assert "scheduler.cli.version" in modules
    assert not modules & heavy


@pytest.mark.parametrize("command", [("why", "default/pod"), ("queue",)])
def test_asking_loads_neither_the_engine_nor_the_clients_models(command: tuple[str, ...], tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", token="secret")
    modules = loaded(*command, "--kubeconfig", path)
    assert "scheduler.controller.write.http_connections" in modules
    heavy = {
        "numpy",
        "aiohttp",
        "kopf",
        "structlog",
        "pydantic",
        "click",
        "cryptography",
        "prometheus_client",
        MODELS,
        *CEL,
        *ENGINE,
    }
    assert not modules & heavy


def test_run_loads_neither_kopf_nor_aiohttp_nor_rich_nor_the_pages_before_its_requests(tmp_path: Path) -> None:
    modules = loaded("run", "--serving-http", "--write-config-to", str(tmp_path / "written"))
    assert {*ENGINE, "scheduler.controller.run", "scheduler.controller.operator"} <= modules
    libraries = {"kopf", "aiohttp", "opentelemetry", "cryptography", "rich", MODELS, *CEL}
    pages = {"scheduler.controller.serve.server", "scheduler.controller.serve.questions", "scheduler.simulate"}
    assert not modules & (libraries | pages)


def test_a_command_that_shows_help_loads_none_of_the_others() -> None:
    assert not loaded("--help") & {"numpy", "aiohttp", "scheduler.cli.run", "scheduler.cli.demo"}
