"""The namespace of the kubeconfig's context: the one that ``tandem why`` and ``tandem queue`` mean by default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scheduler.cli.connection import Access
from scheduler.config.documents import read_value
from scheduler.controller.write.connection_settings import ConnectionSettings
from scheduler.controller.write.credentials import CredentialSource
from scheduler.errors import ConfigurationError


def context_namespace(access: Access, environment: Mapping[str, str] = os.environ) -> str:
    """The context's namespace; "" if it has none, or if there is no kubeconfig.

    As in kubectl, the first of several files that names a current context or has the context counts. Raises
    ConfigurationError for a kubeconfig that is named and does not exist; other faults are named when it is used.
    """
    settings = ConnectionSettings(kubeconfig=access.kubeconfig, context=access.context)
    try:
        paths = CredentialSource(settings, environment).kubeconfig_path()
    except ConfigurationError:
        if access.kubeconfig:
            raise
        return ""
    documents = [_document(path) for path in paths.split(os.pathsep) if path]
    name = access.context or next(filter(None, (one.get("current-context") for one in documents)), "")
    for document in documents:
        for entry in _list(document.get("contexts")):
            if entry.get("name") == name:
                context = entry.get("context")
                namespace = context.get("namespace") if isinstance(context, dict) else ""
                return namespace if isinstance(namespace, str) else ""
    return ""


def _document(path: str) -> dict[str, Any]:
    try:
        document = read_value(Path(path).expanduser().read_bytes())
    except (OSError, ConfigurationError):
        return {}
    return document if isinstance(document, dict) else {}


def _list(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
