"""The entry point: from the words of a command line to an exit code.

Its exit codes are ``help.EXIT_CODES``.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import Final

from scheduler.cli.commands import BY_NAME, HELP
from scheduler.cli.complaint import complain
from scheduler.controller import garbage
from scheduler.errors import ConfigurationError

FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Error numbers of a file that takes no more bytes."""


def main(arguments: list[str] | None = None, name: str = "tandem") -> int:
    """Run the command line; returns the exit code. Errors that users can fix are shown without a traceback.

    ``name``: what the user typed to get here, for help and errors.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if arguments is None and isinstance(sys.stdout, io.TextIOWrapper):
        # As for standard error: what a locale other than UTF-8 can't print is escaped, and ends no command.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Imported modules stay: the garbage collector would walk over them again and again, and find nothing.
    garbage.collect_seldom()
    try:
        code = _run(words, name)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except ConfigurationError as error:
        for fault in error.faults:
            complain(str(fault))
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        if not has_lost_its_reader():
            raise
        # The reader of the output has closed it, as ``head`` does.
        _print_no_more()
        return 1
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        _print_no_more()
        complain(f"standard output: {error.strerror}")
        return 1
    except UnicodeEncodeError:
        wrong = next((word for word in words if not _is_unicode(word)), None)
        if wrong is None:
            raise
        complain(f"{wrong!a} is not UTF-8")
        return 1


def has_lost_its_reader() -> bool:
    """Whether standard output has no reader any more; else the pipe that broke is a connection of the command."""
    state = select.poll()
    state.register(sys.stdout, select.POLLOUT)
    return any(what & (select.POLLERR | select.POLLHUP) for _, what in state.poll(0))


def _print_no_more() -> None:
    """Drop what is buffered for standard output: it would fail once more at the interpreter's end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_unicode(word: str) -> bool:
    """False for bytes of a command line that are no UTF-8, which Python shows as halves of surrogate pairs."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _run(words: list[str], name: str) -> int:
    command = BY_NAME.get(words[0]) if words else None
    wants_help = any(word in HELP for word in words[1:])
    if command is not None and command.reads_words and (command.shows_help or not wants_help):
        return int(command.function()(words[1:]))
    # Imported here: loading the parser of options and the help would double the time of `version`.
    from scheduler.cli.help import refuse_command, show_command_help, show_help
    from scheduler.cli.options import WrongOptions, read_options

    if command is None:
        if not words or words[0] in HELP:
            show_help(name)
            return 0
        return refuse_command(words[0], name)
    if wants_help:
        show_command_help(command, name)
        return 0
    try:
        read = read_options(command.options(), words[1:])
    except WrongOptions as error:
        complain(f"{error}. Try '{name} {command.name} --help' for help.")
        return 1
    return int(command.function()(read))
