"""Record what the real kube-apiserver answers: `python -m tests.contract.record --server URL --token T`.

The server must be a fresh one on which no controller and no kubelet acts.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from tests.contract.compare import play

RECORDED = Path(__file__).with_name("recorded.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--token")
    parser.add_argument("--output", type=Path, default=RECORDED)
    chosen = parser.parse_args()
    recording = asyncio.run(play(chosen.server, chosen.token))
    chosen.output.write_text(recording.to_json())
    print(f"{len(recording.answers)} answers recorded in {chosen.output}")


if __name__ == "__main__":
    main()
