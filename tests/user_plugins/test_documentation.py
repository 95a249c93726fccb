"""What docs/plugins.md and the example package show is true: every snippet is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scheduler.compose import all_plugins, build_profiles
from scheduler.config.loading import load
from scheduler.framework.plugin import Plugin
from scheduler.framework.plugin_ports import CalledInShell
from scheduler.testing import check_contract
from scheduler.user_plugins.loading import ENTRY_POINT_GROUP, PluginClasses, class_at
from scheduler.user_plugins.shape import MAX_CALL_SECONDS
from scheduler.user_plugins.sources import PluginSources

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
EXAMPLE = ROOT / "examples" / "tandem-plugin-example"


@pytest.fixture
def example_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE / "src")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_plugin_on_the_page_keeps_the_contract_and_every_test_on_it_passes() -> None:
    shown: dict[str, Any] = {}
    for block in blocks("python"):
        exec(compile(block, "docs/plugins.md", "exec"), shown)
    own = [
        thing
        for thing in shown.values()
        if isinstance(thing, type) and issubclass(thing, Plugin) and not thing.__module__.startswith("scheduler.")
    ]
    named = {"Rack", "Labelled", "QuietNodes", "OneOfEachApp", "OneOfEachAppOrNone", "Warm", "Licence", "Release"}
    assert {plugin.name for plugin in own} == named
    for plugin in own:
        check_contract(plugin(), changes=30)
    tests = [thing for name, thing in shown.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()


def test_the_configuration_on_the_page_and_the_example_s_own_enable_its_plugins(example_on_path: None) -> None:
    (shown,) = blocks("yaml")
    classes = PluginClasses(PluginSources(EXAMPLE / "src"))
    profile = build_profiles(load(shown), all_plugins(load(shown), classes))["tandem-scheduler"]
    assert {plugin.name: weight for plugin, weight in profile.score_plugins}["CheapestNode"] == 5
    assert "PlannedMaintenance" in [plugin.name for plugin in profile.filter_plugins]
    stated = load((EXAMPLE / "config.yaml").read_text()).kube.profiles[0]
    assert stated.args_of("CheapestNode") == {"label": "example.com/price", "defaultPrice": 500}


def test_the_example_s_entry_points_are_complete_plugins(example_on_path: None) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    offered = project["entry-points"][ENTRY_POINT_GROUP]
    assert {name: class_at(path).name for name, path in offered.items()} == {name: name for name in offered}
    (shown,) = blocks("toml")
    page = tomllib.loads(shown)["project"]
    assert page["name"] == project["name"]
    assert page["entry-points"][ENTRY_POINT_GROUP].items() <= offered.items()


def test_the_example_s_own_tests_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=EXAMPLE, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "25 passed" in done.stdout


def test_the_limits_on_the_page_are_the_limits() -> None:
    stated = f"({CalledInShell.time_limit_seconds:g} unless stated, {MAX_CALL_SECONDS:g} at most)"
    assert stated in PAGE
