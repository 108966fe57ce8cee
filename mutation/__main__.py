"""`make mutation`: measure which mutants of the protocol the gate kills, and write docs/mutation.md.

python -m mutation [ID ...] [--by-hand] [--again] [--jobs N] [--within S]

It goes on where the ledger of this code ends. The exit code is 0 if every chosen mutant is decided, 1 if not, 2 if the arguments
or the sample are wrong. `--draw` draws a new sample, `--order` a new order of the gate's runs, `--page` only writes the page.
"""

import argparse
import signal
import sys
from collections.abc import Sequence

from mutation.gate import plans
from mutation.groups import measure_together
from mutation.measure import ORDER, ROUNDS, Bench, Gate, in_order, serving
from mutation.page import result_of, store_results, write_page
from mutation.sample import BY_HAND, SAMPLE, SIZE, Mutant, MutationError, draw, load_sample, store_sample

_FIRST = 20  # runs that every mutant performs before more runs of the baseline are made


def main() -> int:
    """Measure the chosen mutants and say what is known of all."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # remove the copies of the tree
    try:
        if asked.draw:
            store_sample(draw())
            return 0
        if not asked.page:
            return _measure(asked)
        write_page()
        return 0
    except MutationError as error:
        sys.stderr.write(f"mutation: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130


def _measure(asked: argparse.Namespace) -> int:
    mutants = _sample(asked)
    chosen = [mutant for mutant in mutants if not asked.ids or mutant.id in asked.ids]
    gate_plans = plans()
    names = list(gate_plans)
    bench = Bench(asked.jobs, gate_plans, within_s=asked.within, say=_say)
    if asked.again:
        bench.forget([mutant.id for mutant in chosen])

    def now() -> list[Mutant]:
        return serving(chosen, bench.folder, len(chosen) if asked.by_hand else SIZE)

    with bench.open():
        for stage in [names] if asked.order else _stages(names):
            bench.baseline(stage)
            gate = Gate(names, bench.folder)
            if asked.order:
                ORDER.write_text("".join(f"{name}\n" for name in gate.most_reaching()), encoding="utf-8")
                return 0
            for row in gate.red:
                _say(f"{row.run} is red without a mutation and is left out: {row.words}")
            bench.measure(gate, now, rounds=ROUNDS[:1])
            measure_together(bench, gate, now())
            bench.measure(gate, now)
    if not asked.by_hand:
        store_results(result_of(row, bench.stamp) for row in map(gate.progress, mutants) if row.is_known)
        write_page()
    found = [gate.progress(mutant) for mutant in now()]
    counts = {outcome: sum(row.outcome == outcome for row in found) for outcome in ("killed", "survived", "undecided")}
    _say(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["undecided"] else 0


def _sample(asked: argparse.Namespace) -> tuple[Mutant, ...]:
    return load_sample(BY_HAND if asked.by_hand else SAMPLE)


def _stages(names: Sequence[str]) -> tuple[list[str], ...]:
    """The runs that kill most mutants; more of them; all."""
    ordered = in_order(names)
    return ordered[: _FIRST + 1], ordered[: 3 * _FIRST + 1], ordered


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description="Measure which mutants the gate kills.")
    parser.add_argument("ids", nargs="*", metavar="ID", help="M-001; all mutants of the sample if there is none")
    parser.add_argument("--by-hand", action="store_true", help="measure the mistakes that people made up")
    parser.add_argument("--again", action="store_true", help="forget what the ledger holds of these mutants")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="copies of the tree at work at once")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="S", help="begin nothing after S seconds")
    parser.add_argument("--draw", action="store_true", help="draw a new sample")
    parser.add_argument("--order", action="store_true", help="write mutation/order.txt from what the runs of the gate execute")
    parser.add_argument("--page", action="store_true", help="only write the page")
    asked = parser.parse_args()
    known = {mutant.id for mutant in _sample(asked)}
    if strange := [id_ for id_ in asked.ids if id_ not in known]:
        parser.error(f"no mutant has the id {', '.join(strange)}")
    if asked.jobs < 1:
        parser.error("--jobs must be at least 1")
    return asked


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
