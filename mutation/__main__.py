"""Break the code on purpose, and see that what should notice it does (`make prove-requirements`, `make mutation`).

python -m mutation [ID ...] [--check] [--again] [--jobs N] [--within S] [--deadline S]
    Proves the rows with tests or a plan that changed since they were proved, or whose code, tests or plan did (`--again`: all).
    R-308 chooses R-308.1 too. `--check` stores nothing.
python -m mutation --gate [ID ...] [--again] [--jobs N] [--within S]
    Measures which of the drawn mutants the gate kills, and writes docs/mutation.md. Goes on where the ledger of this code ends.
python -m mutation --reaim [ID ...] [--write]
    Says for each edit that does not fit the code any more where it may belong; `--write` writes that into the register.
python -m mutation --causes [ID ...] [--held-out N] [--jobs N] [--write]
    Says for how many caught edits the cause of the red run begins with a row in which the edited function decided, and lists the
    others (mutation/causes.py). `--held-out` does the same for the edits of N clauses, by which the rules were not made.
    `--write` puts table and figures into docs/evidence.md.

python -m mutation --clauses N [--after M] [--jobs N] [--within S] [--write]
    Says how many edits of N drawn clauses are red by judges in the stored plans (mutation/clause_gate.py).

python -m mutation --localise N [--seed SEED]
    Says for how many of N red edits the page of the red run names the edited function (mutation/localise.py).

python -m mutation --transcripts [ID ...] [--drawn N --seed SEED] [--jobs N] [--within S]
    Says for each edit of these clauses, or for the second edits of N drawn ones, whether the transcripts of storms notice it
    (mutation/transcripts.py).

The exit code is 0 if every row is proved, decided or fits, 1 if one is not, 2 if the arguments or the register are wrong.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from mutation import clause_gate, localise, transcripts
from mutation.aims.aim import AimError
from mutation.aims.reaim import reaimed
from mutation.aims.shortest import aimed
from mutation.causes import held_out, measured, tell
from mutation.gate import plans
from mutation.groups import measure_together
from mutation.measure import ORDER, ROUNDS, Bench, Gate, in_order, serving
from mutation.page import result_of, store_results, write_page
from mutation.prove import prove, to_prove
from mutation.rows import DRAWN, REGISTER, MutationError, Row, clauses, drawn, load, rows, store
from mutation.sample import SIZE, draw
from mutation.trees import ROOT

_FIRST = 20  # runs that every mutant performs before more runs of the baseline are made


def main() -> int:
    """Do what the arguments say."""
    options = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # remove the copies of the tree
    try:
        return _exit_code(options)
    except (MutationError, AimError) as error:
        sys.stderr.write(f"mutation: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130


def _exit_code(options: argparse.Namespace) -> int:
    """Do what the options ask for, and return the exit code."""
    if options.draw:
        store(REGISTER / f"{DRAWN}.yaml", draw())
    elif options.page:
        write_page()
    elif options.aim:
        before, after = (path.read_text(encoding="utf-8") for path in options.aim)
        _say(aimed(options.aim[0].resolve().relative_to(ROOT).as_posix(), before, after).words)
    elif options.reaim:
        return reaim(REGISTER, ROOT, options.ids, write=options.write)
    elif options.gate or options.order:
        return _measure(options)
    elif options.clauses:
        stored = {name: plan for name, plan in plans().items() if not name.startswith("seeds/")}
        edits = clause_gate.measured(
            stored, options.clauses, after=options.after, jobs=options.jobs, within_s=options.within, say=_say
        )
        for line in (*clause_gate.missed(edits), *clause_gate.table(edits, after=options.after)):
            _say(line)
        if options.write:
            clause_gate.write(edits, after=options.after)
    elif options.transcripts:
        chosen_edits = (
            transcripts.drawn(options.drawn, options.seed) if options.drawn else transcripts.edits_of(_named(options.ids))
        )
        return 1 if transcripts.tell(chosen_edits, jobs=options.jobs, within_s=options.within, say=_say) else 0
    elif options.causes:
        found = measured(options.ids, jobs=options.jobs, say=_say)
        others = held_out(options.held_out, jobs=options.jobs, say=_say) if options.held_out else ()
        tell(found, others, say=_say, write=options.write)
    elif options.localise:
        found_pages = localise.measured(options.localise, seed=options.seed, say=_say)
        for line in localise.table(found_pages, seed=options.seed):
            _say(line)
    else:
        chosen = to_prove(options.ids, again=options.again)
        return prove(chosen, jobs=options.jobs, deadline_s=options.deadline, within_s=options.within, check=options.check)
    return 0


def _named(ids: Sequence[str]) -> tuple[Row, ...]:
    """The clauses of these ids; of all clauses if there is none."""
    return tuple(row for row in clauses() if not ids or {row.id, row.statement} & set(ids))


def reaim(folder: Path, root: Path, ids: Sequence[str], *, write: bool) -> int:
    """Print a proposal for each edit of a register that does not fit the code below `root`; `write`: put it into the register."""
    lost = 0
    for path in sorted(folder.glob("*.yaml")):
        before = load(path)
        rows_after = list(before)
        for n, row in enumerate(before):
            chosen = row.edit and not row.gone and (not ids or {row.id, row.statement} & set(ids))
            for field, edited in zip(("edit", "second"), row.by_edit if chosen else (), strict=False):
                proposal = reaimed(edited.aim, root)
                if proposal is None:
                    continue
                lost += 1
                _say(f"{row.id}\n  was  {edited.edit}\n  {proposal.how}")
                if proposal.aim is not None:
                    rows_after[n] = replace(rows_after[n], **{field: proposal.aim.words})
                    _say(f"  now  {proposal.aim.words}")
        if write and rows_after != list(before):
            store(path, rows_after)
    _say(f"{lost} edits do not fit" if lost else "every edit fits")
    return 1 if lost else 0


def _measure(options: argparse.Namespace) -> int:
    """Measure mutants against the gate, in rounds, until time or mutants are used up; return the exit code."""
    mutants = [row for row in rows() if row.file.startswith("reference/") and row.id in options.ids] or list(drawn())
    gate_plans = plans()
    names = list(gate_plans)
    bench = Bench(options.jobs, gate_plans, within_s=options.within, say=_say)
    if options.again:
        bench.forget([mutant.id for mutant in mutants])

    def now() -> list[Row]:
        return serving(mutants, bench.folder, len(mutants) if options.ids else SIZE)

    with bench.open():
        for stage in [names] if options.order else _stages(names):
            bench.baseline(stage)
            gate = Gate(names, bench.folder)
            if options.order:
                ORDER.write_text("".join(f"{name}\n" for name in gate.most_reaching()), encoding="utf-8")
                return 0
            for run in gate.red:
                _say(f"{run.run} is red without a mutation and is left out: {run.words}")
            bench.measure(gate, now, rounds=ROUNDS[:1])
            measure_together(bench, gate, now())
            bench.measure(gate, now)
    store_results(result_of(row, bench.stamp) for row in map(gate.progress, mutants) if row.is_known)
    write_page()
    measured = [gate.progress(mutant) for mutant in now()]
    counts = {outcome: sum(row.outcome == outcome for row in measured) for outcome in ("killed", "survived", "undecided")}
    _say(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["undecided"] else 0


def _stages(names: Sequence[str]) -> tuple[list[str], ...]:
    """The runs that kill most mutants; more of them; all."""
    ordered = in_order(names)
    return ordered[: _FIRST + 1], ordered[: 3 * _FIRST + 1], ordered


def _arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m mutation", description="Break the code on purpose, and see what notices it.")
    parser.add_argument("ids", nargs="*", metavar="ID", help="rows of the register; all of their kind if there is none")
    parser.add_argument("--gate", action="store_true", help="measure mutants against the whole gate, instead of proving rows")
    parser.add_argument("--check", action="store_true", help="store no proof")
    parser.add_argument("--again", action="store_true", help="also what was proved and did not change, or what was measured")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="copies of the tree at work at once")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="S", help="begin nothing after S seconds")
    parser.add_argument("--deadline", type=float, default=180.0, metavar="S", help="seconds for the tests, or the plan, of a row")
    parser.add_argument("--causes", action="store_true", help="say how many causes of caught edits begin with a row of the edit")
    parser.add_argument("--held-out", type=int, default=0, metavar="N", help="with --causes: also edits of N clauses")
    parser.add_argument("--after", type=int, default=0, metavar="M", help="with --clauses: leave out the first M that are drawn")
    parser.add_argument("--clauses", type=int, default=0, metavar="N", help="say how many edits of N clauses judges turn red")
    parser.add_argument("--localise", type=int, default=0, metavar="N", help="say how many of N pages name the edited function")
    parser.add_argument("--seed", type=int, default=79, metavar="SEED", help="with --localise, --drawn: of the draw")
    parser.add_argument(
        "--transcripts", action="store_true", help="say whether the transcripts of storms notice edits of clauses"
    )
    parser.add_argument(
        "--drawn", type=int, default=0, metavar="N", help="with --transcripts: the second edits of N drawn clauses"
    )
    parser.add_argument("--reaim", action="store_true", help="say where edits belong that do not fit any more")
    parser.add_argument("--write", action="store_true", help="with --reaim: into the register; with --causes, --clauses: docs")
    parser.add_argument("--aim", nargs=2, type=Path, metavar="FILE", help="the edit that makes the second text of the first file")
    parser.add_argument("--draw", action="store_true", help="draw a new sample")
    parser.add_argument("--order", action="store_true", help="write mutation/order.txt from what the runs of the gate execute")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    ids_known = {id_ for row in rows() for id_ in (row.id, row.statement)}
    if unknown_ids := [id_ for id_ in options.ids if id_ not in ids_known]:
        parser.error(f"no row has the id {', '.join(unknown_ids)}")
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    return options


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
