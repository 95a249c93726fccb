"""``tandem completion``: scripts with which a shell completes commands and flags, made from the commands themselves.

kubectl asks a program of its own, ``kubectl_complete-tandem``, for the candidates of ``kubectl tandem``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scheduler.cli.commands import COMMANDS
from scheduler.cli.flags import FLAGS
from scheduler.cli.options import Options, argument, declared_by, one_of

Candidates = Mapping[str, Sequence[tuple[str, str]]]
"""Command -> its flags, each with a help text of one line; under "" the commands themselves."""

# What kubectl does with the candidates: no file names where there are none.
_NO_FILES: Final = ":4"
_MAX_HELP_CHARACTERS: Final = 60


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclass(frozen=True, kw_only=True)
class CompletionOptions(Options):
    """The options of ``tandem completion``."""

    shell: Shell = argument("SHELL", "bash, zsh or fish.", reads=one_of(Shell))


def completion(options: CompletionOptions) -> int:
    """Print the script with which a shell completes commands and flags."""
    print(script(options.shell, candidates()))
    return 0


def complete_for_kubectl(words: list[str]) -> int:
    """Print what can follow ``kubectl tandem`` and these words, in the form that kubectl asks for."""
    print("\n".join(kubectl_lines(candidates(), words)))
    return 0


def candidates() -> Candidates:
    """What can follow ``tandem``, and what each command takes. Loads every command."""
    found = {"": [(command.name, _one_line(command.help)) for command in COMMANDS]}
    for command in COMMANDS:
        if command.reads_words:
            continue
        found[command.name] = [
            (flag, _one_line(declared.help))
            for _, _, declared in declared_by(command.options())
            for flag in declared.flags
            if flag.startswith("--")
        ]
    # The flags of "run" are kube-scheduler's, and have a table of their own.
    found["run"] = [(f"--{flag.name}", _one_line(flag.help)) for flag in FLAGS if not flag.no_meaning]
    return found


def kubectl_lines(known: Candidates, words: Sequence[str]) -> list[str]:
    """What ``kubectl_complete-tandem`` prints for these words, the last of which is being typed."""
    *before, begun = words or [""]
    command = next((word for word in before if not word.startswith("-")), "")
    fitting = [(name, help_text) for name, help_text in known.get(command, ()) if name.startswith(begun)]
    return [*(f"{name}\t{help_text}" for name, help_text in fitting), _NO_FILES]


def script(shell: Shell, known: Candidates) -> str:
    return {Shell.BASH: _bash, Shell.ZSH: _zsh, Shell.FISH: _fish}[shell](known)


def _bash(known: Candidates) -> str:
    cases = "\n".join(
        f'    "{name}") words="{" ".join(each for each, _ in flags)}" ;;' for name, flags in known.items()
    )
    return f"""\
# bash completion of tandem: source <(tandem completion bash)
_tandem() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command="" words="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case $word in -*) ;; *) command=$word; break ;; esac
  done
  case $command in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _tandem tandem"""


def _zsh(known: Candidates) -> str:
    cases = "\n".join(
        f"    {name or chr(39) * 2}) entries=({' '.join(_quoted(f'{each}:{text}') for each, text in flags)}) ;;"
        for name, flags in known.items()
    )
    return f"""\
#compdef tandem
# zsh completion of tandem: source <(tandem completion zsh)
_tandem() {{
  local command="" word
  local -a entries
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    case $word in -*) ;; *) command=$word; break ;; esac
  done
  case $command in
{cases}
  esac
  _describe tandem entries || _files
}}
compdef _tandem tandem"""


def _fish(known: Candidates) -> str:
    lines = ["# fish completion of tandem: tandem completion fish | source"]
    for command, entries in known.items():
        for name, text in entries:
            if command:
                where, what = f"__fish_seen_subcommand_from {command}", f"-l {name.removeprefix('--')}"
            else:
                where, what = "__fish_use_subcommand", f"-f -a {name}"
            lines.append(f"complete -c tandem -n {_quoted(where)} {what} -d {_quoted(text)}")
    return "\n".join(lines)


def _one_line(text: str) -> str:
    """The beginning of a help text, without markup and without what shells would read as theirs."""
    plain = " ".join(text.replace("[bold]", "").replace("[/bold]", "").split())
    plain = "".join(letter for letter in plain if letter not in "'\"`$\\:[]")
    return plain if len(plain) <= _MAX_HELP_CHARACTERS else plain[:_MAX_HELP_CHARACTERS].rsplit(" ", 1)[0] + " …"


def _quoted(text: str) -> str:
    """In single quotes; the text has none, see `_one_line`."""
    return f"'{text}'"
