"""Where a running scheduler takes plugins from: processes of their own, with code laid out for them to find."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.simulate.apiserver.kinds import NAMESPACES
from scheduler.simulate.cluster import EmbeddedCluster
from scheduler.simulate.demo import ShippedScheduler
from tests.limits import WAIT_SECONDS

MODULE = """
from pathlib import Path

from scheduler.framework.per_node import PerNodeFilter

Path({marker!r}).touch()


class Mine(PerNodeFilter):
    name = "Mine"

    def filter_one(self, state, pod, view, node):
        return None
"""


class Laid:
    """A folder with a module that leaves a mark when it is imported."""

    def __init__(self, root: Path, folder: str, module: str = "intruder") -> None:
        self.folder = root / folder
        self.folder.mkdir(exist_ok=True)
        self.marker = root / f"{folder}-{module}-was-imported"
        self._path = f"{module}:Mine"
        (self.folder / f"{module}.py").write_text(MODULE.format(marker=str(self.marker)))

    @property
    def was_imported(self) -> bool:
        return self.marker.exists()

    def configuration(self) -> str:
        return configuration(f"plugins: [{{name: Mine, path: '{self._path}'}}]", "[{name: Mine}]")


def configuration(tandem: str = "", enabled: str = "[]") -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false, resourceName: tandem-scheduler}}
profiles:
- schedulerName: tandem-scheduler
  plugins: {{multiPoint: {{enabled: {enabled}}}}}
---
apiVersion: tandem.scheduling/v1alpha1
kind: TandemConfiguration
{tandem}
"""


def check_config(laid: Laid, *flags: str, python: tuple[str, ...] = (), working: Path | None = None) -> str:
    """The output of ``tandem check-config`` for a configuration that names the module."""
    file = laid.folder.parent / "configuration" / "scheduler.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(laid.configuration())
    command = [sys.executable, *python, "-m", "scheduler", "check-config", str(file), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=working or laid.folder)
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("python", [(), ("-I",), ("-P",)])
def test_a_module_in_the_working_folder_is_not_imported(tmp_path: Path, python: tuple[str, ...]) -> None:
    laid = Laid(tmp_path, "working")
    assert 'plugins[0].path: Invalid value: "intruder:Mine"' in check_config(laid, python=python)
    assert not laid.was_imported


def test_a_module_in_pythonpath_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laid = Laid(tmp_path, "elsewhere")
    monkeypatch.setenv("PYTHONPATH", str(laid.folder))
    assert "neither the plugin folder nor an installed package" in check_config(laid, working=tmp_path)
    assert not laid.was_imported


def test_a_module_in_the_stated_folder_is_imported(tmp_path: Path) -> None:
    laid = Laid(tmp_path, "plugins")
    assert "is valid" in check_config(laid, f"--plugin-folder={laid.folder}", python=("-I",))
    assert laid.was_imported


def test_a_module_beside_the_stated_folder_is_not(tmp_path: Path) -> None:
    laid = Laid(tmp_path, "working")
    (tmp_path / "plugins").mkdir()
    assert "there is no module intruder" in check_config(
        laid, f"--plugin-folder={tmp_path / 'plugins'}", python=("-I",)
    )
    assert not laid.was_imported


def test_a_folder_that_holds_the_configuration_file_is_refused(tmp_path: Path) -> None:
    laid = Laid(tmp_path, "configuration")
    for folder in (laid.folder, tmp_path):
        assert "must not hold the configuration file" in check_config(laid, f"--plugin-folder={folder}")
    assert not laid.was_imported


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    said = check_config(Laid(tmp_path, "plugins"), "--plugin-folder=/nope")
    assert "--plugin-folder /nope: there is no such folder" in said


def test_a_module_of_pythons_own_library_is_refused_whatever_is_in_the_folder(tmp_path: Path) -> None:
    laid = Laid(tmp_path, "plugins", "antigravity")
    assert "is a module of Python's own library" in check_config(laid, f"--plugin-folder={laid.folder}")
    assert not laid.was_imported


async def test_a_reload_brings_no_code_and_the_plugins_of_the_start_can_be_enabled_and_dropped(tmp_path: Path) -> None:
    known, new = Laid(tmp_path, "plugins", "known"), Laid(tmp_path, "plugins", "later")
    file = tmp_path / "scheduler.yaml"
    file.parent.mkdir(exist_ok=True)
    (tmp_path / "configuration").mkdir()
    file = tmp_path / "configuration" / "scheduler.yaml"
    file.write_text(known.configuration())
    async with EmbeddedCluster() as cluster:
        cluster.registry.create(NAMESPACES, "", {"metadata": {"name": "tandem-system"}})
        flags = (f"--config={file}", f"--plugin-folder={known.folder}")
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
        async with ShippedScheduler(kubeconfig, tmp_path / "log", *flags) as shipped:
            assert known.was_imported
            file.write_text(new.configuration())
            await logged(shipped, "was not loaded at the start: a new plugin needs a restart")
            assert not new.was_imported
            file.write_text(configuration())
            await logged(shipped, "Configuration reloaded", times=1)
            file.write_text(known.configuration())
            await logged(shipped, "Configuration reloaded", times=2)
        assert shipped.exit_code == 0
    assert not new.was_imported


async def logged(shipped: ShippedScheduler, text: str, times: int = 1) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while sum(text in line for line in shipped.log_lines()) < times:  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.05)
