from __future__ import annotations

from scheduler.plugins.default_binder import DefaultBinder
from tests.plugins.clusters import info


def test_a_binding_names_the_pod_with_its_uid() -> None:
    assert DefaultBinder.binding(info("web", namespace="prod", uid="u-1"), "n1") == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "prod", "name": "web", "uid": "u-1"},
        "target": {"kind": "Node", "name": "n1"},
    }
