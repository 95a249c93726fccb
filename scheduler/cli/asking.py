"""The options of the commands that ask a running scheduler."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console

from scheduler.cli.complaint import complain
from scheduler.cli.connection import Access, Unanswered, fetch
from scheduler.cli.leader import fetch_from_leader
from scheduler.config.names import OWN_NAMESPACE
from scheduler.errors import ConfigurationError, Fault

Kubeconfig = Annotated[
    str,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="The kubeconfig to use: by default $KUBECONFIG, else ~/.kube/config.",
        show_default=False,
    ),
]
Context = Annotated[
    str, typer.Option("--context", metavar="NAME", help="The kubeconfig's context to use.", show_default=False)
]
Server = Annotated[
    str,
    typer.Option(
        "--server",
        "-s",
        metavar="URL",
        help="Where the scheduler serves its pages, in place of a port-forward to the leader's pod.",
        show_default=False,
    ),
]
SchedulerLease = Annotated[
    str, typer.Option("--scheduler", metavar="NAMESPACE/LEASE", help="The Lease by which the leader is found.")
]
ServerAuthority = Annotated[
    str,
    typer.Option(
        "--server-ca",
        "--certificate-authority",
        metavar="FILE",
        help="Verify --server by this authority (PEM).",
        show_default=False,
    ),
]
ServerFingerprint = Annotated[
    str,
    typer.Option(
        "--server-fingerprint",
        metavar="SHA256",
        help="Verify --server by its certificate's SHA-256.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the JSON itself.")]


LEASE: Final = f"{OWN_NAMESPACE}/tandem-scheduler"


def access_of(kubeconfig: str, context: str, scheduler: str, server: str, authority: str, fingerprint: str) -> Access:
    """The options as one value. Raises ConfigurationError."""
    namespace, slash, lease = scheduler.partition("/")
    if not (slash and namespace and lease) or "/" in lease:
        raise ConfigurationError([Fault("--scheduler", f'"{scheduler}" must be NAMESPACE/LEASE')])
    return Access(kubeconfig, context, namespace, lease, server, authority, fingerprint)


def fetch_page(path: str, access: Access, question: bytes | None = None) -> bytes:
    """A page of the server that is named, or of the leader, or its answer to a question. Raises Unanswered and
    ConfigurationError."""
    if access.server:
        return fetch(path, access, question=question)
    return fetch_from_leader(path, access, os.environ, question)


def show_page(
    path: str,
    access: Access,
    as_json: bool,
    print_page: Callable[[dict[str, Any], Console], None],
    question: bytes | None = None,
) -> int:
    """Print a page, or the answer to a question, as tables or as JSON; returns the exit code: 1, with a one-line error,
    if it can't be fetched."""
    try:
        body = fetch_page(path, access, question)
        page = msgspec.json.decode(body, type=dict[str, Any])
    except Unanswered as error:
        complain(str(error))
        return 1
    except (msgspec.DecodeError, RecursionError) as error:
        complain(f"{path}: the answer can't be read: {error}")
        return 1
    show(page, body, as_json, print_page)
    return 0


def show(
    page: dict[str, Any], body: bytes, as_json: bool, print_page: Callable[[dict[str, Any], Console], None]
) -> None:
    """Print a decoded page as tables, or its ``body`` as JSON."""
    if as_json:
        print(msgspec.json.format(body, indent=2).decode())
    else:
        print_page(page, Console())
