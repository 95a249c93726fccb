"""The roles: exactly the rights of the one table that the scheduler itself checks at its start."""

from __future__ import annotations

import re

from scheduler.cli.leader import READER
from scheduler.controller.rights import Right
from tests.manifests.documents import ROOT, Document, for_users, of_the_scheduler, the
from tests.manifests.roles import FILE, deployed_rights, roles_text

Atom = tuple[str, str, str, str, str]


def granted() -> set[Atom]:
    """(group, resource, verb, namespace, name) of every right in the roles."""
    return {
        (group, resource, verb, role["metadata"].get("namespace", ""), name)
        for role in of_the_scheduler()
        if role["kind"] in ("ClusterRole", "Role")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def test_the_roles_are_written_from_the_table_of_rights() -> None:
    assert FILE.read_text() == roles_text(deployed_rights()), "run python -m tests.manifests.roles"


def test_the_roles_grant_what_is_needed_and_nothing_else() -> None:
    needed = {(right.group, right.resource, right.verb, right.namespace, right.name) for right in deployed_rights()}
    assert granted() == needed


def test_no_role_grants_by_a_star() -> None:
    assert not [atom for atom in granted() if "*" in atom]


def test_each_role_is_bound_to_the_service_account_only() -> None:
    account = the("ServiceAccount")["metadata"]
    subjects = [{"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}]
    roles = {_place(document) for document in of_the_scheduler() if document["kind"] in ("ClusterRole", "Role")}
    bindings = [document for document in of_the_scheduler() if document["kind"].endswith("RoleBinding")]
    for binding in bindings:
        assert binding["subjects"] == subjects
        assert binding["roleRef"]["kind"] == binding["kind"].removesuffix("Binding")
    assert {(b["roleRef"]["kind"], b["roleRef"]["name"], b["metadata"].get("namespace", "")) for b in bindings} == roles


def test_people_may_ask_for_one_account_s_token_and_reach_the_leader_and_no_more() -> None:
    by_kind = {document["kind"]: document for document in for_users()}
    assert by_kind["ServiceAccount"]["metadata"] == {"name": READER, "namespace": "tandem-system"}
    assert by_kind["ClusterRole"]["rules"] == [
        {"nonResourceURLs": ["/debug/*", "/ui", "/ui/*"], "verbs": ["get"]},
        {"nonResourceURLs": ["/debug/what-if", "/debug/what-helps"], "verbs": ["create"]},
    ]
    assert by_kind["ClusterRoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": READER, "namespace": "tandem-system"}
    ]
    rules = {tuple(rule["resources"]): (rule.get("resourceNames"), rule["verbs"]) for rule in by_kind["Role"]["rules"]}
    assert rules == {
        ("leases",): (["tandem-scheduler"], ["get"]),
        ("pods/portforward",): (None, ["create", "get"]),
        ("serviceaccounts/token",): ([READER], ["create"]),
    }
    assert by_kind["Role"]["metadata"]["namespace"] == "tandem-system"


def test_a_right_for_one_name_is_written_as_such() -> None:
    rights = [
        Right("g", "things", "create", "home"),
        Right("g", "things", "get", "home", "one"),
        Right("g", "things", "update", "home", "one"),
    ]
    text = roles_text(rights)
    assert "    resources: [things]\n    resourceNames: [one]\n    verbs: [get, update]\n" in text
    assert "    resources: [things]\n    verbs: [create]\n" in text
    assert text.count("kind: Role\n") == 2  # the Role, and the binding's reference to it


def test_the_operations_page_tells_of_each_right() -> None:
    page = (ROOT / "docs" / "operations.md").read_text().partition("## Rights\n")[2].partition("\n## ")[0]
    row = re.compile(r"^\| `([^`]*)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|", re.MULTILINE)
    documented = {
        (group if group != "core" else "", resource, verb, *_scope(scope))
        for group, resources, verbs, scope in row.findall(page)
        for resource in re.findall(r"`([^`]+)`", resources)
        for verb in verbs.replace(",", " ").split()
    }
    assert documented == granted()


def _place(role: Document) -> tuple[str, str, str]:
    return role["kind"], role["metadata"]["name"], role["metadata"].get("namespace", "")


def _scope(cell: str) -> tuple[str, str]:
    """``cluster``, ```namespace```, or ```namespace/name```."""
    namespace, _, name = cell.strip().strip("`").partition("/")
    return ("", "") if namespace == "cluster" else (namespace, name)
