"""`python -m e2e.bench`: Muster beside kube-scheduler and its native gangs, and what it costs others; runs interleaved.

Takes --only, --runs, --nodes, --shapes, --systems; prints progress with the time left and tables, and writes
e2e/bench/results/latest.json, part by part. Speed is printed, never asserted.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

from e2e.bench import (
    bystanders,
    gangs,
    jobs,
    memory,
    page,
    progress,
    reasons,
    reclaim,
    same_rate,
    shapes,
    store,
    systems,
    topology,
)

PARTS = {
    "gangs": gangs,
    "bystanders": bystanders,
    "same-rate": same_rate,
    "memory": memory,
    "reclaim": reclaim,
    "topology": topology,
    "page": page,
    "reasons": reasons,
    "jobs": jobs,
}
RESULTS = pathlib.Path(__file__).parent / "results" / "latest.json"


def main(argv: list[str]) -> int:
    """Run the benchmark; gives the exit status."""
    told = _arguments(argv)
    parts = [PARTS[name] for name in dict.fromkeys(told.only)]
    told.output.parent.mkdir(parents=True, exist_ok=True)
    try:
        kept = store.read(told.output, systems.FLAGS)
    except store.Unreadable as error:
        print(error, file=sys.stderr)
        return 1
    done = progress.Progress([step for part in parts for step in part.steps(told)])
    texts = []
    for part in parts:
        found = part.run(told, done)
        kept |= found
        store.write(told.output, kept)
        texts.append(part.table(found))
    print("\n\n".join(texts))
    print(f"\nflags: {json.dumps(systems.FLAGS)}\nwritten to {told.output.name}")
    return 0


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART",
                        help=f"of {', '.join(PARTS)}; the results of the others stay in the file")  # fmt: skip
    parser.add_argument("--runs", type=_positive, default=5)
    parser.add_argument("--nodes", type=_positive, nargs="+", default=[500, 3000],
                        help="parts but gangs take the smallest number only")  # fmt: skip
    parser.add_argument("--shapes", nargs="+", choices=list(shapes.BY_NAME), default=list(shapes.BY_NAME),
                        help="with several node counts, the larger ones run the first shape only")  # fmt: skip
    parser.add_argument("--systems", nargs="+", choices=shapes.SYSTEMS, default=list(shapes.SYSTEMS))
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    return parser.parse_args(argv)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
