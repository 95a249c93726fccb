"""Each page of ``docs/examples`` shows a configuration that enables a plugin of the example package."""

from __future__ import annotations

import tomllib

import pytest

from scheduler.compose import all_plugins, build_profiles
from scheduler.config.loading import load
from scheduler.user_plugins.loading import ENTRY_POINT_GROUP, PluginClasses
from scheduler.user_plugins.sources import PluginSources
from tests.docs.pages import DOCS, ROOT, blocks

EXAMPLE = ROOT / "examples" / "tandem-plugin-example"
PAGES = sorted((DOCS / "examples").glob("*.md"))


def test_there_is_a_page_for_each_example_that_has_one_in_the_readme() -> None:
    readme = (EXAMPLE / "README.md").read_text()
    assert all(f"docs/examples/{page.name}" in readme for page in PAGES)
    assert readme.count("docs/examples/") == len(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_configuration_of_the_page_enables_a_plugin_of_the_package(
    page: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLE / "src")
    text = page.read_text()  # type: ignore[attr-defined]
    (shown,) = (block for block in blocks(text, "yaml") if "KubeSchedulerConfiguration" in block)
    loaded = load(shown)
    (stated,) = loaded.tandem.plugins
    offered = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"][ENTRY_POINT_GROUP]
    assert offered[stated.name] == stated.path
    classes = PluginClasses(PluginSources(EXAMPLE / "src"))
    profile = build_profiles(loaded, all_plugins(loaded, classes))["tandem-scheduler"]
    used = {
        plugin.name
        for group in (profile.filter_plugins, profile.permit_plugins, [each for each, _ in profile.score_plugins])
        for plugin in group
    }
    assert stated.name in used
    assert stated.name in text and stated.path.partition(":")[0].rpartition(".")[2] + ".py" in text
