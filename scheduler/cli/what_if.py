"""``tandem what-if``: where pods would go, and what a change of the cluster would lead to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from scheduler.cli.answers import print_answer
from scheduler.cli.asking import Asking, show_page
from scheduler.cli.input_file import read_input
from scheduler.cli.options import either, option, switch, whole
from scheduler.cli.options import options as several
from scheduler.config.documents import kind_of, read_documents
from scheduler.errors import ConfigurationError, Fault

PAGE: Final = "/debug/what-if"
_EDITS_OF_A_NODE: Final = ("drain", "cordon", "uncordon", "removeNode")


@dataclass(frozen=True, kw_only=True)
class WhatIfOptions(Asking):
    """The options of ``tandem what-if``."""

    SECTION: ClassVar[str] = "Options"
    files: tuple[str, ...] = several(
        "--filename",
        "-f",
        metavar="FILE",
        help="Pods, Deployments, ReplicaSets, StatefulSets or Jobs as for kubectl apply, and ResourceClaimTemplates "
        "of theirs; - is standard input.",
    )
    replicas: int | None = option(
        "--replicas", metavar="N", help="In place of the manifests' own numbers.", default=None, reads=whole(0)
    )
    finds_max: bool = switch("--max", help="How many more fit, and what runs out first.")
    drain: tuple[str, ...] = several("--drain", metavar="NODE", help="Drain the node, budgets observed.")
    cordon: tuple[str, ...] = several("--cordon", metavar="NODE", help="Close the node for new pods.")
    uncordon: tuple[str, ...] = several("--uncordon", metavar="NODE", help="Open a closed node.")
    remove_node: tuple[str, ...] = several(
        "--remove-node", metavar="NODE", help="The node is gone, and its pods with it."
    )
    taint: tuple[str, ...] = several("--taint", metavar="NODE:KEY[=VALUE]:EFFECT", help="Taint a node.")
    label: tuple[str, ...] = several(
        "--label", metavar="NODE:KEY=VALUE", help="Label a node; KEY- takes the label away."
    )
    remove_pod: tuple[str, ...] = several("--remove-pod", metavar="[NAMESPACE/]NAME", help="The pod is gone for good.")
    add_nodes: int = option("--add-nodes", metavar="N", help="Add empty nodes; see --like.", default=0, reads=whole(0))
    like: str = option("--like", metavar="NODE", help="The node that added ones are like.")
    edit: tuple[str, ...] = several(
        "--edit",
        metavar="FILE",
        help="Objects to create or replace, and edits such as {edit: delete, kind: Service, name: web}.",
    )
    config: str = option("--config", metavar="FILE", help="Decide by this configuration.")
    waiting: bool | None = either("--waiting", "Try the pods that wait, too. Default: if something else changes.")
    seed: int = option(
        "--seed", metavar="N", help="For choices among equally good nodes.", default=0, reads=whole(0), shows=True
    )
    namespace: str = option(
        "--namespace", "-n", metavar="NAMESPACE", help="Of pods that name none.", default="default", shows=True
    )


def what_if(options: WhatIfOptions) -> int:
    """Where pods would go, and where everything would go after a change: asked of the scheduler, nothing happens."""
    asked = [
        {"manifest": _in_namespace(one, options.namespace), "replicas": options.replicas}
        for path in options.files
        for one in _documents(path, "--filename")
    ]
    edits = _edits(options)
    if not (asked or edits or options.waiting or options.config):
        text = "the question has neither pods nor edits: name pods with -f FILE, or a change such as --drain NODE"
        raise ConfigurationError([Fault("", text)])
    question = {
        "workloads": asked,
        "edits": edits,
        "findsMax": options.finds_max,
        "withWaiting": options.waiting,
        "configuration": read_input(options.config).decode(errors="replace") if options.config else "",
        "seed": options.seed,
    }
    return show_page(PAGE, options.source(), options.as_json, print_answer, msgspec.json.encode(question))


def _edits(options: WhatIfOptions) -> list[dict[str, Any]]:
    """Raises ConfigurationError."""
    of_nodes = (options.drain, options.cordon, options.uncordon, options.remove_node)
    edits: list[dict[str, Any]] = [
        {"edit": name, "node": node} for name, nodes in zip(_EDITS_OF_A_NODE, of_nodes, strict=True) for node in nodes
    ]
    edits += [_taint(text) for text in options.taint]
    edits += [_label(text) for text in options.label]
    edits += [
        {"edit": "removePod", "pod": pod if "/" in pod else f"{options.namespace}/{pod}"} for pod in options.remove_pod
    ]
    if bool(options.add_nodes) != bool(options.like):
        raise ConfigurationError([Fault("", "--add-nodes N and --like NODE belong together")])
    if options.add_nodes:
        edits.append({"edit": "addNodes", "like": options.like, "count": options.add_nodes})
    for path in options.edit:
        edits += [one if "edit" in one else {"edit": "put", "object": one} for one in _documents(path, "--edit")]
    return edits


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
    text = read_input(path)
    try:
        documents = read_documents(text)
    except ConfigurationError as error:
        raise ConfigurationError([Fault(flag, f"{path}: {fault}") for fault in error.faults]) from error
    for document in documents:
        content = document.content
        items = content.get("items")
        is_list = isinstance(items, list) and str(content.get("kind", "")).endswith("List")
        for one in items if is_list and isinstance(items, list) else (content,):
            if not isinstance(one, dict):
                raise ConfigurationError([Fault(flag, f"{path}: an item must be a mapping, got {kind_of(one)}")])
            found.append(one)
    return found
