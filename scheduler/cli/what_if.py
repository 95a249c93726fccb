"""``tandem what-if``: where pods would go, and what a change of the cluster would lead to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from scheduler.cli.answers import print_answer
from scheduler.cli.asking import (
    LEASE,
    AsJson,
    Context,
    Kubeconfig,
    SchedulerLease,
    Server,
    ServerAuthority,
    ServerFingerprint,
    access_of,
    show,
    show_page,
)
from scheduler.config.documents import MAX_BYTES, kind_of, read_documents
from scheduler.errors import ConfigurationError, Fault

PAGE: Final = "/debug/what-if"
_EDITS_OF_A_NODE: Final = ("drain", "cordon", "uncordon", "removeNode")

Nodes = list[str]


def _nodes(flag: str, text: str) -> Any:
    return typer.Option(flag, metavar="NODE", help=text, show_default=False)


def what_if(
    files: Annotated[
        list[str],
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="Pods, Deployments, ReplicaSets, StatefulSets or Jobs as for kubectl apply; - is standard input.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer copies it
    replicas: Annotated[
        int, typer.Option("--replicas", metavar="N", help="In place of the manifests' own numbers.", show_default=False)
    ] = -1,
    finds_max: Annotated[bool, typer.Option("--max", help="How many more fit, and what runs out first.")] = False,
    drain: Annotated[Nodes, _nodes("--drain", "Drain the node, budgets observed.")] = [],  # noqa: B006
    cordon: Annotated[Nodes, _nodes("--cordon", "Close the node for new pods.")] = [],  # noqa: B006
    uncordon: Annotated[Nodes, _nodes("--uncordon", "Open a closed node.")] = [],  # noqa: B006
    remove_node: Annotated[Nodes, _nodes("--remove-node", "The node is gone, and its pods with it.")] = [],  # noqa: B006
    taint: Annotated[
        list[str], typer.Option("--taint", metavar="NODE:KEY[=VALUE]:EFFECT", help="Taint a node.", show_default=False)
    ] = [],  # noqa: B006
    label: Annotated[
        list[str],
        typer.Option(
            "--label", metavar="NODE:KEY=VALUE", help="Label a node; KEY- takes the label away.", show_default=False
        ),
    ] = [],  # noqa: B006
    remove_pod: Annotated[
        list[str],
        typer.Option("--remove-pod", metavar="[NAMESPACE/]NAME", help="The pod is gone for good.", show_default=False),
    ] = [],  # noqa: B006
    add_nodes: Annotated[
        int, typer.Option("--add-nodes", metavar="N", help="Add empty nodes; see --like.", show_default=False)
    ] = 0,
    like: Annotated[
        str, typer.Option("--like", metavar="NODE", help="The node that added ones are like.", show_default=False)
    ] = "",
    edit: Annotated[
        list[str],
        typer.Option(
            "--edit",
            metavar="FILE",
            help="Objects to create or replace, and edits such as {edit: delete, kind: Service, name: web}.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="Decide by this configuration.", show_default=False)
    ] = "",
    waiting: Annotated[
        bool | None,
        typer.Option("--waiting/--no-waiting", help="Try the pods that wait, too. Default: if something else changes."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="For choices among equally good nodes.")] = 0,
    snapshot: Annotated[
        str,
        typer.Option(
            "--snapshot",
            metavar="FILE",
            help="Ask about these objects (kubectl get -o json|yaml) in place of a running scheduler.",
            show_default=False,
        ),
    ] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Of pods that name none.")] = "default",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    scheduler: SchedulerLease = LEASE,
    server: Server = "",
    server_ca: ServerAuthority = "",
    server_fingerprint: ServerFingerprint = "",
    as_json: AsJson = False,
) -> int:
    """Where pods would go, and where everything would go after a change: asked of the scheduler, nothing happens."""
    edits: list[dict[str, Any]] = [
        {"edit": name, "node": node}
        for name, nodes in zip(_EDITS_OF_A_NODE, (drain, cordon, uncordon, remove_node), strict=True)
        for node in nodes
    ]
    edits += [_taint(text) for text in taint]
    edits += [_label(text) for text in label]
    edits += [{"edit": "removePod", "pod": pod if "/" in pod else f"{namespace}/{pod}"} for pod in remove_pod]
    if bool(add_nodes) != bool(like):
        raise ConfigurationError([Fault("", "--add-nodes N and --like NODE belong together")])
    if add_nodes:
        edits.append({"edit": "addNodes", "like": like, "count": add_nodes})
    for path in edit:
        edits += [one if "edit" in one else {"edit": "put", "object": one} for one in _documents(path, "--edit")]
    asked = [
        {"manifest": _in_namespace(one, namespace), "replicas": replicas if replicas >= 0 else None}
        for path in files
        for one in _documents(path, "--filename")
    ]
    question = {
        "workloads": asked,
        "edits": edits,
        "findsMax": finds_max,
        "withWaiting": waiting,
        "configuration": _read(config).decode(errors="replace") if config else "",
        "seed": seed,
    }
    body = msgspec.json.encode(question)
    if snapshot:
        # All of the scheduler: a question to one that runs does without it.
        from scheduler.cli.objects_file import answer_offline, read_objects

        found = answer_offline(read_objects(snapshot), body)
        show(msgspec.json.decode(found), found, as_json, print_answer)
        return 0
    access = access_of(kubeconfig, context, scheduler, server, server_ca, server_fingerprint)
    return show_page(PAGE, access, as_json, print_answer, body)


def _taint(text: str) -> dict[str, Any]:
    node, _, rest = text.partition(":")
    pair, _, effect = rest.rpartition(":")
    key, _, value = pair.partition("=")
    if not (node and key and effect):
        raise ConfigurationError([Fault("--taint", f"{text!a} must be NODE:KEY[=VALUE]:EFFECT")])
    return {"edit": "taint", "node": node, "key": key, "value": value, "effect": effect}


def _label(text: str) -> dict[str, Any]:
    node, _, pair = text.partition(":")
    key, equals, value = pair.partition("=")
    if not equals and key.endswith("-"):
        return {"edit": "label", "node": node, "key": key[:-1]}
    if not (node and key and equals):
        raise ConfigurationError([Fault("--label", f"{text!a} must be NODE:KEY=VALUE or NODE:KEY-")])
    return {"edit": "label", "node": node, "key": key, "value": value}


def _in_namespace(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return manifest
    return {**manifest, "metadata": {**metadata, "namespace": namespace}}


def _documents(path: str, flag: str) -> list[dict[str, Any]]:
    """The documents of a YAML or JSON file; those of a List one by one. Raises ConfigurationError."""
    found: list[dict[str, Any]] = []
    for document in read_documents(_read(path)):
        content = document.content
        items = content.get("items")
        is_list = isinstance(items, list) and str(content.get("kind", "")).endswith("List")
        for one in items if is_list and isinstance(items, list) else (content,):
            if not isinstance(one, dict):
                raise ConfigurationError([Fault(flag, f"{path}: an item must be a mapping, got {kind_of(one)}")])
            found.append(one)
    return found


def _read(path: str) -> bytes:
    """A file, or standard input for ``-``. Raises ConfigurationError."""
    try:
        if path == "-":
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError([Fault("", f"open {path}: {error.strerror or error}")]) from error
