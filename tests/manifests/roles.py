"""Writes ``manifests/base/roles.yaml`` from the one table of rights that the scheduler itself checks at its start.

``python -m tests.manifests.roles`` after a change of that table; a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from scheduler.cli.prepare import prepare
from scheduler.controller.rights import Right, rights_needed
from scheduler.objects.kinds import READ_KINDS
from tests.manifests.documents import BASE, deployed_flags

FILE = BASE / "roles.yaml"
NAME = "tandem-scheduler"
HOME = "tandem-system"

_HEAD = """\
# What the scheduler may do, and nothing else. Written by `python -m tests.manifests.roles` from the rights that the
# scheduler checks at its start; docs/operations.md says what each is for.
"""


def deployed_rights() -> list[Right]:
    """Those of the scheduler as it is deployed: with the Deployment's flags and the shipped configuration; and what it
    needs besides with feature gates on, so that a gate is only a flag."""
    return rights_needed(replace(prepare(deployed_flags()).settings, kinds=READ_KINDS, keeps_group_counts=True))


def roles_text(rights: Iterable[Right]) -> str:
    """A ClusterRole, one Role a namespace, and the binding of each."""
    by_namespace: dict[str, list[Right]] = {}
    for right in dict.fromkeys(rights):
        by_namespace.setdefault(right.namespace, []).append(right)
    parts = [
        part
        for namespace in sorted(by_namespace)
        for part in (_role(namespace, by_namespace[namespace]), _binding(namespace))
    ]
    return _HEAD + "---\n".join(parts)


def _role(namespace: str, rights: Sequence[Right]) -> str:
    lines = [
        *_beginning("Role" if namespace else "ClusterRole", namespace),
        "rules:",
    ]
    for group, resources, verbs, name in _rules(rights):
        lines += [f'  - apiGroups: ["{group}"]', f"    resources: [{', '.join(resources)}]"]
        lines += [f"    resourceNames: [{name}]"] if name else []
        lines += [f"    verbs: [{', '.join(verbs)}]"]
    return "\n".join(lines) + "\n"


def _binding(namespace: str) -> str:
    kind = "Role" if namespace else "ClusterRole"
    lines = [
        *_beginning(f"{kind}Binding", namespace),
        "roleRef:",
        "  apiGroup: rbac.authorization.k8s.io",
        f"  kind: {kind}",
        f"  name: {NAME}",
        "subjects:",
        "  - kind: ServiceAccount",
        f"    name: {NAME}",
        f"    namespace: {HOME}",
    ]
    return "\n".join(lines) + "\n"


def _beginning(kind: str, namespace: str) -> list[str]:
    where = [f"  namespace: {namespace}"] if namespace else []
    return ["apiVersion: rbac.authorization.k8s.io/v1", f"kind: {kind}", "metadata:", f"  name: {NAME}", *where]


def _rules(rights: Sequence[Right]) -> list[tuple[str, list[str], tuple[str, ...], str]]:
    """(group, resources, verbs, name): the verbs of one resource together, then the resources with the same verbs."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.name, right.resource), []).append(right.verb)
    rules: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, name, resource), of_resource in verbs.items():
        rules.setdefault((group, name, tuple(sorted(of_resource))), []).append(resource)
    return [(group, sorted(resources), found, name) for (group, name, found), resources in sorted(rules.items())]


if __name__ == "__main__":
    FILE.write_text(roles_text(deployed_rights()))
