"""``python -m tests.simulation SEED [STEPS]`` replays it and prints its journal; ``--until N`` tries all below N."""

import sys

from tests.simulation.runs import whole_run


def main(arguments: list[str]) -> int:
    if "--until" in arguments:
        place = arguments.index("--until")
        last = int(arguments[place + 1])
        rest = arguments[:place] + arguments[place + 2 :]
        steps = int(rest[1]) if len(rest) > 1 else 300
        for seed in range(int(rest[0]) if rest else 0, last):
            try:
                whole_run(seed, steps)
            except Exception:
                print(f"seed {seed} fails")
                raise
        return 0
    run = whole_run(int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 300)
    print("\n".join(run.journal))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
