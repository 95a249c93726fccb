"""``python -m scheduler``, and the console scripts: ``tandem``, and those by which kubectl has ``kubectl tandem``."""

from __future__ import annotations

import sys


def main(name: str = "tandem") -> int:
    """The script ``tandem``; returns the exit code. ``name``: what the user typed to get here."""
    try:
        # Here, so that Ctrl-C while the modules are loaded ends without a traceback, too.
        from scheduler.cli.main import main as run
    except KeyboardInterrupt:
        return 130
    return run(name=name)


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
