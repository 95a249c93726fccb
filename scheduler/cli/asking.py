"""The options of the commands that ask: a running scheduler, or what one left behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Struct
from rich.console import Console

from scheduler.cli.complaint import complain, warn
from scheduler.cli.connection import Access, Unanswered, fetch
from scheduler.cli.options import Options, option, switch
from scheduler.cli.printable import printable_page
from scheduler.cli.tables import terminal
from scheduler.config.names import OWN_NAMESPACE
from scheduler.errors import ConfigurationError, Fault
from scheduler.objects.salvage import reason_of

OTHER_FORM: Final = (LookupError, TypeError, ValueError, AttributeError)
"""Exceptions of printing a page that is not Tandem's, or is one of another version."""
LEASE: Final = f"{OWN_NAMESPACE}/tandem-scheduler"


@dataclass(frozen=True, kw_only=True)
class Reaching(Options):
    """How a running scheduler is reached."""

    SECTION: ClassVar[str] = "Which scheduler is asked"
    kubeconfig: str = option(
        "--kubeconfig", metavar="FILE", help="The kubeconfig to use: by default $KUBECONFIG, else ~/.kube/config."
    )
    context: str = option("--context", metavar="NAME", help="The kubeconfig's context to use.")
    scheduler: str = option(
        "--scheduler",
        metavar="NAMESPACE/LEASE",
        help="The Lease by which the leader is found.",
        default=LEASE,
        shows=True,
    )
    server: str = option(
        "--server",
        "-s",
        metavar="URL",
        help="Where the scheduler serves its pages, in place of a port-forward to the leader's pod.",
    )
    server_ca: str = option(
        "--server-ca", "--certificate-authority", metavar="FILE", help="Verify --server by this authority (PEM)."
    )
    server_fingerprint: str = option(
        "--server-fingerprint", metavar="SHA256", help="Verify --server by its certificate's SHA-256."
    )

    def access(self) -> Access:
        """The options as one value. Raises ConfigurationError."""
        namespace, slash, lease = self.scheduler.partition("/")
        if not (slash and namespace and lease) or "/" in lease:
            raise ConfigurationError([Fault("--scheduler", f'"{self.scheduler}" must be NAMESPACE/LEASE')])
        for flag, stated in (("--server-ca", self.server_ca), ("--server-fingerprint", self.server_fingerprint)):
            if stated and not self.server:
                raise ConfigurationError([Fault(flag, "belongs to --server: the leader is verified by its Lease")])
        return Access(
            self.kubeconfig, self.context, namespace, lease, self.server, self.server_ca, self.server_fingerprint
        )


@dataclass(frozen=True, kw_only=True)
class OfRecording(Options):
    """Which part of a recording is meant, and with which code."""

    SECTION: ClassVar[str] = "Recordings"
    until: str = option(
        "--until",
        metavar="TIME|POD",
        help="Of a recording: stop at this time (RFC 3339), or after the first attempt at this pod (NAMESPACE/NAME).",
    )
    plugin_folder: str = option(
        "--plugin-folder",
        metavar="FOLDER",
        help="The code of plugins that a recording needs, as for [bold]run[/bold].",
    )


@dataclass(frozen=True, kw_only=True)
class Showing(Options):
    """How an answer is shown."""

    SECTION: ClassVar[str] = "Output"
    as_json: bool = switch("--json", help="Print the JSON itself.")


@dataclass(frozen=True, kw_only=True)
class AskingRunning(Reaching, Showing):
    """A question that only a running scheduler answers."""

    def source(self) -> Source:
        """Where the answers come from: the leader, or the server that is named. Raises ConfigurationError."""
        return _running(self.access())


@dataclass(frozen=True, kw_only=True)
class Asking(OfRecording, Reaching, Showing):
    """A question to a running scheduler, or to what one left behind."""

    SECTION: ClassVar[str] = "Questions without a scheduler"
    place: str = option(
        "--from",
        metavar="PLACE",
        help="Ask a recording, a snapshot, or objects (kubectl get -o json|yaml) in place of a running scheduler.",
    )

    def source(self) -> Source:
        """The place that is named, else the server, else the leader. Raises ConfigurationError."""
        access = self.access()
        if self.place:
            if access.server:
                raise ConfigurationError([Fault("", "--from and --server exclude each other")])
            # Imported here: it loads the whole scheduler, which a question to a running one does not need.
            from scheduler.cli.offline import opened

            state = opened(self.place, self.until, self.plugin_folder)
            return Source(state.answer, state.moment, state.is_past)
        for flag, word in (("--until", self.until), ("--plugin-folder", self.plugin_folder)):
            if word:
                raise ConfigurationError([Fault(flag, "belongs to --from: a running scheduler is asked about now")])
        return _running(access)


class Source(Struct, frozen=True):
    """What is asked. ``fetch`` takes a page's path and a question in JSON, or None, and raises Unanswered and
    ConfigurationError; ``at`` is the time that the answers are about, None for a scheduler that runs."""

    fetch: Callable[[str, bytes | None], bytes]
    at: datetime | None = None
    is_past: bool = False
    """Whether ``at`` is another time than now, which answers must say."""


def _running(access: Access) -> Source:
    if access.server:
        return Source(lambda path, question: fetch(path, access, question=question))
    # Imported here: the API server's client and the port-forward are not needed where --server is given.
    from scheduler.cli.leader import fetch_from_leader

    return Source(lambda path, question: fetch_from_leader(path, access, os.environ, question))


def show_page(
    path: str,
    source: Source,
    as_json: bool,
    print_page: Callable[[dict[str, Any], Console], None],
    question: bytes | None = None,
) -> int:
    """Print a page, or the answer to a question, as tables or as JSON; returns the exit code: 1, with a one-line error,
    if it can't be fetched."""
    try:
        body = source.fetch(path, question)
        page = printable_page(body)
    except Unanswered as error:
        complain(str(error))
        return 1
    except (msgspec.DecodeError, RecursionError) as error:
        complain(f"{path}: the answer can't be read: {reason_of(error)}")
        return 1
    warnings = page.get("warnings")
    for warning in warnings if isinstance(warnings, list) else ():
        warn(str(warning))
    if as_json:
        print(msgspec.json.format(body, indent=2).decode())
        return 0
    console = terminal()
    if source.is_past:
        console.print(f"At {source.at:%Y-%m-%dT%H:%M:%SZ}")
    try:
        print_standby(page, console)
        print_page(page, console)
    except OTHER_FORM:
        complain(other_form(path))
        return 1
    return 0


def print_standby(page: dict[str, Any], console: Console) -> None:
    """Print a note if the copy that was asked does not lead: it knows little of pods that wait."""
    if page.get("isLeading", True) is False:
        console.print(
            "This copy does not lead: it tries no pod, knows no attempts, and each pod that waits is active here. "
            "Without --server the leader is asked."
        )


def other_form(path: str) -> str:
    """Why a page can't be shown that raised one of ``OTHER_FORM``."""
    return f"{path}: the answer has another form than this version reads; --json prints it as it is"
