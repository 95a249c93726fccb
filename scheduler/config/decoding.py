"""Decodes a configuration file's documents, with kube-scheduler 1.36's strictness and error texts."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.config import tandem
from scheduler.config.documents import Document, read_documents
from scheduler.config.strict import Decoded, decode_strictly, strict_decoding_error
from scheduler.config.tandem import TandemConfiguration
from scheduler.config.types import API_GROUP, API_VERSION, KIND
from scheduler.config.wire import StatedConfiguration
from scheduler.errors import Fault


class Stated(msgspec.Struct, frozen=True):
    """A decoded file: the stated values and the faults; a faulty field counts as absent."""

    kube: StatedConfiguration
    tandem: TandemConfiguration
    faults: tuple[Fault, ...]
    warnings: tuple[str, ...] = ()


def decode(text: str | bytes) -> Stated:
    """Decode a file of a KubeSchedulerConfiguration, a TandemConfiguration, or both, in any order.

    Raises ConfigurationError where the text is neither YAML nor JSON; every other fault is in the result.
    """
    kube, ours = StatedConfiguration(), TandemConfiguration()
    faults: list[Fault] = []
    warnings: list[str] = []
    seen: set[str] = set()
    documents = read_documents(text)
    if not documents:
        # An empty file is a mistake, as in kube-scheduler; without a file the defaults apply.
        faults.append(_kindless())
    for document in documents:
        kind, kind_faults = _kind_of(document)
        faults.extend(kind_faults)
        if kind_faults:
            continue
        if kind in seen:
            faults.append(Fault("", f"the configuration holds more than one {kind}", near=(document.number, "kind")))
            continue
        seen.add(kind)
        if kind == KIND:
            decoded = decode_strictly(document.content, StatedConfiguration)
            kube = decoded.value or kube
        else:
            content, outdated = _updated(document.content)
            warnings.extend(outdated)
            decoded = decode_strictly(content, TandemConfiguration)
            ours = decoded.value or ours
        faults.extend(_decoding_faults(document, decoded))
    return Stated(kube, ours, tuple(faults), tuple(warnings))


def _updated(content: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The document without retired settings and with renamed ones under their new name, and a warning for each."""
    warnings: list[str] = []
    for (section, name), warning in tandem.RETIRED.items():
        stated = content.get(section)
        if isinstance(stated, dict) and name in stated:
            warnings.append(warning)
            content = {**content, section: {key: value for key, value in stated.items() if key != name}}
    for (section, name), new in tandem.RENAMED.items():
        stated = content.get(section)
        if isinstance(stated, dict) and name in stated and new not in stated:
            warnings.append(f"{section}.{name} is renamed to {section}.{new}")
            content = {**content, section: {new if key == name else key: value for key, value in stated.items()}}
    return content, warnings


def _decoding_faults(document: Document, decoded: Decoded) -> list[Fault]:
    faults = list(decoded.faults)
    if decoded.unknown or document.duplicates:
        faults.insert(0, Fault("", strict_decoding_error(decoded.unknown, document.duplicates, decoded.meant)))
    return faults


def _kindless(near: tuple[int, str] | None = None) -> Fault:
    return Fault("", "Object 'Kind' is missing", near)


def _kind_of(document: Document) -> tuple[str, tuple[Fault, ...]]:
    """The kind of a document, or why it can't be read."""
    kind, version = document.content.get("kind"), document.content.get("apiVersion")
    if not kind:
        return "", (_kindless((document.number, "kind")),)
    if not version:
        return "", (Fault("", "Object 'apiVersion' is missing", near=(document.number, "apiVersion")),)
    if (version, kind) in ((API_VERSION, KIND), (tandem.API_VERSION, tandem.KIND)):
        return str(kind), ()
    hint = ""
    for group, served in ((API_GROUP, API_VERSION), (tandem.API_GROUP, tandem.API_VERSION)):
        if str(version).startswith(f"{group}/") and version != served:
            hint = f': the version served is "{served}"'
    wrong = "apiVersion" if kind in (KIND, tandem.KIND) else "kind"
    reason = f'no kind "{kind}" is registered for version "{version}"{hint}'
    return "", (Fault("", reason, near=(document.number, wrong)),)
