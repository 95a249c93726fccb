"""The namespace of the kubeconfig's context, over the real command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from scheduler.cli.connection import Access
from scheduler.cli.context_namespace import context_namespace
from scheduler.cli.main import main
from tests.cli.test_connection import Recording, serving


def _kubeconfig(file: Path, current: str = "shop", **namespaces: str) -> Path:
    contexts = [
        {"name": name, "context": {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}}
        for name, namespace in namespaces.items()
    ]
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": current, "contexts": contexts,
        "clusters": [{"name": "c", "cluster": {"server": "https://api.test"}}], "users": [{"name": "u", "user": {}}],
    }  # fmt: skip
    file.write_text(yaml.safe_dump(document))
    return file


async def _asked(kubeconfig: Path, *words: str) -> str:
    """The path that the command asks the scheduler for."""
    async with serving(Recording()) as server:
        code = await asyncio.to_thread(main, [*words, "--json", f"--kubeconfig={kubeconfig}", "--server", server.url])
        assert (code, len(server.paths)) == (0, 1)
        return server.paths[0]


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["queue"], "/debug/queue?namespace=store"),
        (["queue", "-A"], "/debug/queue"),
        (["queue", "-n", "other"], "/debug/queue?namespace=other"),
        (["queue", "--context", "plain"], "/debug/queue"),
        (["why", "a"], "/debug/why/store/a"),
        (["why", "deploy/web"], "/debug/why/store/deployment/web"),
        (["why", "other/a"], "/debug/why/other/a"),
        (["why", "a", "-n", "other"], "/debug/why/other/a"),
        (["why", "a", "--context", "plain"], "/debug/why/default/a"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_the_context_s_namespace_is_meant_unless_another_is_named(
    tmp_path: Path, words: list[str], path: str
) -> None:
    assert await _asked(_kubeconfig(tmp_path / "config", shop="store", plain=""), *words) == path


async def test_the_queue_says_that_it_shows_one_namespace_only(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    await _asked(_kubeconfig(tmp_path / "config", shop="store"), "queue")
    assert "Note: these are the pods of namespace store, the kubeconfig context's; -A shows all" in (
        capfd.readouterr().err
    )


def test_one_namespace_and_all_namespaces_are_not_asked_for_together(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["queue", "-A", "-n", "shop", "--server", "http://127.0.0.1:1"]) == 1
    assert "--all-namespaces" in capfd.readouterr().err


def test_of_several_files_the_first_with_a_current_context_and_the_first_with_that_context_count(
    tmp_path: Path,
) -> None:
    first = _kubeconfig(tmp_path / "first", current="", shop="one")
    second = _kubeconfig(tmp_path / "second", current="shop", shop="two")
    assert context_namespace(Access(), {"KUBECONFIG": f"{first}:{tmp_path / 'absent'}:{second}"}) == "one"
    assert context_namespace(Access(), {"HOME": str(tmp_path)}) == ""


@pytest.mark.parametrize("text", ["[", "[]", "contexts: 5", "contexts: [5, {name: shop}]\ncurrent-context: shop"])
def test_a_kubeconfig_that_is_none_is_left_to_its_reader_to_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    assert context_namespace(Access(kubeconfig=str(file)), {}) == ""
