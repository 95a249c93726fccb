"""``python -m scheduler``, and the console scripts: ``tandem``, and those by which kubectl has ``kubectl tandem``."""

from __future__ import annotations

import os
import sys


def main(name: str = "tandem") -> int:
    """The script ``tandem``; returns the exit code. ``name``: what the user typed to get here."""
    open_closed_streams()
    try:
        # Here, so that Ctrl-C while the modules are loaded ends without a traceback, too.
        from scheduler.cli.main import main as run
    except KeyboardInterrupt:
        return 130
    return run(name=name)


def open_closed_streams() -> None:
    """Open the null device for standard streams that are closed: sockets would get their numbers, and what is written
    to them."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def kubectl_plugin() -> int:
    """The script ``kubectl-tandem``."""
    return main(name="kubectl tandem")


def kubectl_completion() -> int:
    """The script ``kubectl_complete-tandem``."""
    # kubectl asks at each press of the tab key, and the other scripts do without the table of commands.
    from scheduler.cli.completion import complete_for_kubectl

    return complete_for_kubectl(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
