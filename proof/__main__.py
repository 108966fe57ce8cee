"""`make prove-checkers`: compare each judge with its definition on `--histories` small histories; write docs/proof.md.

python -m proof --histories 100000 --write docs/proof.md

With `--only` the rows that were run replace their old ones in the page; the other rows stay.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from proof import cycles, elle, linearizability, logs, queues, reads
from proof.log_definitions import DEFINITIONS, UNPROVEN
from proof.objects import SUBJECTS, Subject
from proof.reads_definitions import DEFINITIONS as READS
from proof.reads_definitions import IMPOSSIBLE, POSSIBLE, UNDECIDED

_HEAD = """# Proof that the checkers are right

Each judge was compared with an independent definition in `proof/` on small histories; the table gives the number of histories.
`make prove-checkers` runs all comparisons and writes this page; `pytest tests/proof` runs a part of them.
Each of the two fails if judge and definition disagree on one history.

- **Linearizability:** the definition tries every order of the calls that respects real time.
  It has sequential objects (register, queue …) of its own, written independently of the judge's models.
  The exhaustive part has every way in which that many calls can overlap in time, with every choice from a few answers.
  For a history without an order, the longest prefix that has one and the call that cannot be placed are compared, too.
  Of a register's history that has an order, each part between two times must have one, because the judge refutes by such parts.
  A history in which no call completed must be undecided.
- **Transactions:** the definitions try abstract executions (Cerone, Bernardi, Gotsman) and version orders (Adya).
  Each history is judged at one isolation level, the levels in turn.
  Some of the random histories have values that no transaction wrote; these may be older than the history, or impossible.
  A third have many writes that nobody read, so that no read shows their order.
  INVALID and VALID verdicts must be right; only with such older values, or without any read, the verdict is undecided.
  The definition enumerates all dependency cycles; the judge must report every kind of cycle, by a shortest one.
- **Certificates:** each verdict on objects and transactions that is not undecided gets a certificate (docs/certificates.md).
  So does each INVALID of the models of reads below.
  The verifier, which imports no judge, accepts it; a verdict without one counts as wrong.
- **Logs:** the definitions apply the rules of `docs/promise.md` to all pairs of rows.
  They rebuild the replicas' logs from the first row each time.
  In the table, the words in brackets name the kind of random histories.
  Those of `operations` and `events` are correct histories with a few changed fields.
  The histories of `lies` and `feuds` have one falsified row each, of a kind that is rare in the others.
  A test asserts that the random histories show each kind of anomaly of each checker.
- **Final reads** (`client-log`): histories of clients alone, with and without final reads that may fail, be denied, or end early.
  The comparison is of losses, of the number of promised records of which nobody knows, and of the reasons for not being live.
- **Destroyed data** (`of wounds`): histories with power loss, swapped and failing directories, and pending ISR changes.
  Some have unclean elections that an operator ordered.
  Every min.insync.replicas and both flush settings occur.
  The comparison is of lost records, excused records with the faults that excuse them, and unjudged records.
  It includes the offsets from which a log begins anew after an excused loss.
  The table counts a history with any of these as impossible.
- **Liveness:** each reason why a partition or the cluster is not live is compared, at the bound B after healing and at the end.
- **Sessions** (`exactly-once`, `zombies`, `share-groups`, `group-delivery`, `background`; docs/promise.md §8):
  the definitions go through what may have happened: each transaction of unknown outcome committed or did not, a commit of a
  group with unknown outcome took effect at any later time or never, and a member that never answered did anything it could.
  They accuse only what no such choice explains; of two initializations of a producer that overlap they decide nothing.
  Some histories have final reads that fail or end early, destroyed data, or an excused loss in another partition.
  A history counts as undecided if nothing is wrong and something cannot be judged.
  The reasons for not being live of these judges are not compared, nor where committed records lie (`zombies` goes by values).
- **Queues** (`kafka`): the definitions cover Jepsen's twenty anomalies of sends and polls.
  Those that Kafka allows are only noted by the judge.
  Dependency cycles with ww edges are allowed and not compared.
  A history counts as undecided if the judge cannot decide something and finds nothing wrong.
- **Reads** (`bank`, `long-fork`, `counter`, `set-full`, `broadcast`, `sequential`, `comments`, `monotonic`, `total-queue`,
  `unique-ids`, `adya-g2`): the definitions try every order of the calls that may explain an answer: transfers from the first
  balances, orders of writes and inserts, sets of additions, moments of reads, an enqueue for each value that came out.
  The verdicts are compared; a history counts as undecided if the definition cannot decide it.
- **Not covered:** how checkers other than `acked-loss`, `election`, `client-log` and those of sessions treat destroyed data
  (tests/checkers covers it).
  Reassignments in `availability-cluster` are not covered, nor directories swapped before a broker heard of a partition.
  `transactions` joins the judges `kafka` and `list-append`, which are compared; what it hands to them and leaves out is not.
  The judges without a definition read rows as they come, and a definition would repeat them:
"""
_UNPROVEN = f"  {', '.join(f'`{name}`' for name in UNPROVEN[:-1])} and `{UNPROVEN[-1]}`.\n\n"
_TAIL = """Rows with fewer than 100,000 histories come from shorter runs: `--only` replaces some rows and keeps the others.
"""
_COLUMNS = "| judge | histories | exhaustive up to | possible | impossible | undecided | wrong |\n|---|---|---|---|---|---|---|\n"


class Row(NamedTuple):
    """One row of the results table in docs/proof.md: one judge and its comparisons."""

    judge: str
    histories: int
    exhaustive: str
    possible: int
    impossible: int
    undecided: str
    wrong: int

    def words(self) -> str:
        """Format the result of one judge as a Markdown table row."""
        numbers = [f"{value:,}" if isinstance(value, int) else value for value in self[1:]]
        return f"| {self.judge} | {' | '.join(numbers)} |"


def _print_wrong(wrong: list[str]) -> int:
    """Print the shortest history on which judge and definition disagree; return the number of disagreements."""
    if wrong:
        sys.stderr.write(min(wrong, key=len) + "\n")
    return len(wrong)


def _rows_of_object(subject: Subject, count: int) -> list[Row]:
    """The row of one object under linearizability."""
    tally = linearizability.prove(subject, count)
    exhaustive = f"{tally.calls_max} calls ({tally.exhaustive:,})"
    undecided = f"{tally.undecided:,}" + (f", {tally.loose:,} with a longer prefix" if tally.loose else "")
    undecided += f", {tally.unanswered:,} without an answer" if tally.unanswered else ""
    return [Row(subject.name, tally.total, exhaustive, tally.possible, tally.impossible, undecided, _print_wrong(tally.wrong))]


def _rows_of_transactions(writes: str, count: int) -> list[Row]:
    """The row of transactions that write in this way."""
    tally = elle.prove(writes, count)
    undecided = f"{tally.older:,} with older values"
    exhaustive = f"{tally.exhaustive:,}"
    return [Row(tally.name, tally.total, exhaustive, tally.possible, tally.impossible, undecided, _print_wrong(tally.wrong))]


def _rows_of_cycles(count: int) -> list[Row]:
    """The row of the cycles of list-append."""
    tally = cycles.prove(count)
    name = f"cycles of list-append ({len(tally.by_kind)} kinds, up to {tally.longest} steps)"
    return [Row(name, tally.histories, "-", tally.histories - tally.cyclic, tally.cyclic, "0", _print_wrong(tally.wrong))]


def _rows_of_queues(count: int, part: int) -> list[Row]:
    """The row of sends and polls."""
    tally = queues.prove(count, part)
    impossible = tally.total - tally.good - tally.undecided
    undecided = f"{tally.undecided:,}"
    return [Row("kafka", tally.total, "-", tally.good, impossible, undecided, _print_wrong(tally.wrong))]


def _rows_of_reads(name: str, count: int) -> list[Row]:
    """The row of one model whose answers are judged one by one."""
    tally = reads.prove(name, count)
    verdicts = tally.verdicts
    return [
        Row(
            name,
            verdicts.total(),
            "-",
            verdicts[POSSIBLE],
            verdicts[IMPOSSIBLE],
            f"{verdicts[UNDECIDED]:,}",
            _print_wrong(tally.wrong),
        )
    ]


def _rows_of_logs(what: str, count: int, part: int) -> list[Row]:
    """The rows of the log checkers on histories of this kind."""
    return [
        Row(
            f"{tally.name} (of {what})",
            tally.total,
            "-",
            tally.good,
            tally.total - tally.good - tally.undecided,
            f"{tally.undecided:,}",
            _print_wrong(tally.wrong),
        )
        for tally in logs.prove(what, count, part)
    ]


def joined(rows: list[Row]) -> list[Row]:
    """Add up the results of each judge over the parts of its histories."""
    rows_by_judge: dict[str, Row] = {}
    for row in rows:
        row_before = rows_by_judge.get(row.judge)
        rows_by_judge[row.judge] = row if row_before is None else row_before._replace(
            histories=row_before.histories + row.histories, possible=row_before.possible + row.possible,
            impossible=row_before.impossible + row.impossible, wrong=row_before.wrong + row.wrong,
            undecided=f"{_number(row_before.undecided) + _number(row.undecided):,}",
        )  # fmt: skip
    return list(rows_by_judge.values())


def _number(words: str) -> int:
    return int(words.replace(",", ""))


def page(rows: list[Row], old: str) -> str:
    """Return the text of docs/proof.md with these results; rows of other judges are taken from the old page."""
    lines_kept = [
        line for line in old.splitlines() if line.startswith("| ") and line.endswith(" |") and not line.startswith("| judge ")
    ]
    names = {row.judge for row in rows}
    lines = [line for line in lines_kept if line[2:].partition(" | ")[0] not in names] + [row.words() for row in rows]
    total = sum(_number(line.split(" | ")[1]) for line in lines)
    return f"{_HEAD}{_UNPROVEN}{_COLUMNS}" + "\n".join(lines) + f"\n\nTotal: {total:,} histories.\n\n{_TAIL}"


_PART = 5_000  # histories of logs in one task


def tasks(count: int) -> Iterator[tuple[str, Callable[[], list[Row]]]]:
    """Return all comparisons of judges with definitions to run, the longest first.

    Cycles are a part of list-append and use a fifth of its histories.
    """
    yield "cycles", partial(_rows_of_cycles, count // 5)
    yield from (("transactions", partial(_rows_of_transactions, writes, count)) for writes in ("append", "w"))
    for what in DEFINITIONS:
        for part, done in enumerate(range(0, count, _PART)):
            yield what, partial(_rows_of_logs, what, min(_PART, count - done), part)
    for part, done in enumerate(range(0, count, _PART)):
        yield "queues", partial(_rows_of_queues, min(_PART, count - done), part)
    yield from (("reads", partial(_rows_of_reads, name, count)) for name in READS)
    yield from (("objects", partial(_rows_of_object, subject, count)) for subject in SUBJECTS)


def main() -> int:
    """Compare judges with their definitions; return 0 if they agree on every history, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--only", default="", help="parts, with commas: cycles, transactions, objects, queues, reads, " + ", ".join(DEFINITIONS)
    )
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    with ProcessPoolExecutor(options.workers) as pool:
        chosen = [task for part, task in tasks(options.histories) if not options.only or part in options.only.split(",")]
        for future in [pool.submit(task) for task in chosen]:
            rows.extend(rows_of_task := future.result())
            sys.stdout.write("".join(f"{row.words()}\n" for row in rows_of_task))
            sys.stdout.flush()
    rows = joined(rows)
    if options.write:
        old = options.write.read_text(encoding="utf-8") if options.only and options.write.exists() else ""
        options.write.write_text(page(rows, old), encoding="utf-8")
    return 1 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
