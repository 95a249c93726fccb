"""``python -m tests.simulation SEED`` replays a run and prints its journal; ``--until N`` tries all seeds below N.

A seed that fails is shrunk to a script, a file of one change a line, which ``--script FILE`` replays. With ``--state
FILE`` a run over many seeds goes on where the last one was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from scheduler.simulate.changes import Step, read, written
from tests.simulation.runs import CASES, Case, Run
from tests.simulation.shrinking import FailureKind, kind_of, shrink

STEPS = 300


def main(arguments: list[str]) -> int:
    """The exit code: 1 if a seed fails."""
    options = _parser().parse_args(arguments)
    cases = {name: CASES[name] for name in (options.case or CASES)}
    if options.script is not None:
        [case] = cases.values()
        run = Run(options.seed, case)
        run.follow(read(options.script.read_bytes()))
        print("\n".join(run.world.journal))
        return 0
    if options.until is not None:
        return _try_all(options, cases)
    for case in cases.values():
        run = Run(options.seed, case)
        run.draw(options.steps)
        print("\n".join(run.world.journal))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", default=0, help="the seed, or the first one with --until")
    parser.add_argument("--steps", type=int, default=STEPS, help="random actions a run (default: %(default)s)")
    parser.add_argument("--until", type=int, metavar="N", help="try all seeds from SEED to N - 1")
    parser.add_argument("--state", type=Path, metavar="FILE", help="with --until: where to go on from, and what ran")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="with --until: stop after this time")
    parser.add_argument("--case", action="append", choices=CASES, help="only this kind of run (repeatable)")
    parser.add_argument("--script", type=Path, metavar="FILE", help="replay this script with SEED and --case")
    return parser


def _try_all(options: argparse.Namespace, cases: dict[str, Case]) -> int:
    """Every seed is one run of one case, in turn. Prints how many ran, in which time."""
    state = {"next": options.seed, "runs": 0, "seconds": 0.0}
    if options.state is not None and options.state.exists():
        state = json.loads(options.state.read_text())
    names = list(cases)
    end = time.monotonic() + options.seconds
    while state["next"] < options.until and time.monotonic() < end:
        seed = int(state["next"])
        name = names[seed % len(names)]
        started = time.monotonic()
        run = Run(seed, cases[name])
        try:
            run.draw(options.steps)
        except Exception as error:  # noqa: BLE001 - whatever breaks is what is looked for
            traceback.print_exc()
            _report(seed, name, cases[name], run.script, kind_of(error))
            return 1
        state = {
            "next": seed + 1,
            "runs": state["runs"] + 1,
            "seconds": round(state["seconds"] + time.monotonic() - started, 1),
        }
        if options.state is not None:
            options.state.write_text(json.dumps(state))
    print(f"{state['runs']} runs in {state['seconds']:.0f} s, up to seed {state['next'] - 1}; none failed")
    return 0


def _report(seed: int, name: str, case: Case, script: Sequence[Step], failure: FailureKind) -> None:
    """Shrink a failing script, and write the short one to a file in the working folder."""
    print(f"seed {seed} ({name}) fails after {len(script)} changes; looking for a short script", file=sys.stderr)

    def fails(part: Sequence[Step]) -> bool:
        try:
            Run(seed, case).follow(part)
        except Exception as error:  # noqa: BLE001 - another failure than the one looked for is no shorter form of it
            return kind_of(error) == failure
        return False

    if not fails(script):
        print("the script alone does not fail in this way: replay the seed", file=sys.stderr)
        return
    short = shrink(script, fails)
    path = Path(f"simulation-{seed}.jsonl")
    path.write_bytes(written(short))
    print(f'{len(short)} changes: python -m tests.simulation {seed} --case "{name}" --script {path}', file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
