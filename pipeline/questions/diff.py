"""Two campaigns side by side: what is worse in the second one (after) than in the first one (before), protocol by protocol.

The unit is a plan: a plan that a campaign performed twice has the worse of its outcomes. Three rules decide.

*A proof needs no statistics.* An INVALID or not live plan, or a new kind of anomaly, is worse if both campaigns performed that
plan and it was better before, or if the first campaign had none at all in this protocol.

*Everything else must exceed noise.* Shares of plans are compared by Fisher's exact test, recovery by the sign test over the plans
that both campaigns performed, and by the Mann-Whitney test if they share none. Recovery that differs by less than `TOLERATED`
counts as equal. All tests are one-sided.

*The whole comparison raises a false alarm at most once in a hundred times.* Each p is corrected (Bonferroni): it is multiplied by
the number of tests of its kind and by the number of kinds, so that hundreds of pairs of coverage do not hide slower recovery. The
product must not exceed `LEVEL`.

A pair of protocol state and fault counts as coverage; so does a protocol that only the first campaign has.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct, structs
from scipy import stats

from pipeline.questions.ask import Engine
from pipeline.questions.findings import LEVEL, TOLERATED, Finding, What
from pipeline.questions.question import NEVER_NS, quantile

# Plans of both campaigns with their worst outcome. `:before` and `:after` are names of campaigns, perhaps the same one.
_PLANS = """
outcomes as (
  select campaign, protocol, plan_digest, bool_or(live is false) as stuck,
         case when bool_or(verdict = 'INVALID') then 'INVALID' when bool_or(verdict = 'UNKNOWN') then 'UNKNOWN' else 'VALID' end
           as verdict
  from runs group by campaign, protocol, plan_digest),
b as (select * from outcomes where campaign = :before),
a as (select * from outcomes where campaign = :after)"""

_OUTCOMES = f"""
with {_PLANS}
select protocol, '' as subject, count(b.verdict) as of_before, count(a.verdict) as of_after,
       count_if(b.verdict = 'INVALID') as invalid_before, count_if(a.verdict = 'INVALID') as invalid_after,
       count_if(b.verdict <> 'INVALID' and a.verdict = 'INVALID') as invalid_changed,
       count_if(b.stuck) as stuck_before, count_if(a.stuck) as stuck_after, count_if(not b.stuck and a.stuck) as stuck_changed,
       count_if(b.verdict = 'UNKNOWN') as unknown_before, count_if(a.verdict = 'UNKNOWN') as unknown_after,
       count_if(b.verdict = 'VALID' and a.verdict = 'UNKNOWN') as unknown_changed
from b full join a using (protocol, plan_digest) group by protocol order by protocol"""

_KINDS = """
with found as (
  select distinct campaign, protocol, plan_digest, kind
  from anomalies join (select campaign, protocol, run, plan_digest from runs) using (campaign, protocol, run)),
b as (select * from found where campaign = :before),
a as (select * from found where campaign = :after),
shared as (
  select distinct protocol, plan_digest, true as shared from runs where campaign = :before)
select protocol, kind as subject, count(b.campaign) as before, count(a.campaign) as after,
       count_if(b.campaign is null and shared) as changed
from b full join a using (protocol, plan_digest, kind) left join shared using (protocol, plan_digest)
group by protocol, kind order by protocol, kind"""

_RECOVERY = f"""
with slowest as (
  select campaign, protocol, kind as fault, plan_digest, max(coalesce(recovery_ns, {NEVER_NS})) as ns
  from windows join (select campaign, protocol, run, plan_digest from runs) using (campaign, protocol, run)
  where acted > 0 group by campaign, protocol, kind, plan_digest),
b as (select protocol, fault, plan_digest, ns as b_ns from slowest where campaign = :before),
a as (select protocol, fault, plan_digest, ns as a_ns from slowest where campaign = :after),
paired as (
  select protocol, fault, count(b_ns) as of_before, count(a_ns) as of_after,
         {quantile(0.5, "b_ns")} as before, {quantile(0.5, "a_ns")} as after,
         count_if(b_ns is not null and a_ns is not null) as pairs,
         count_if(100 * a_ns > {100 + TOLERATED} * b_ns) as slower, count_if(100 * b_ns > {100 + TOLERATED} * a_ns) as faster
  from b full join a using (protocol, fault, plan_digest) group by protocol, fault),
mixed as (
  select protocol, fault, b_ns as ns, false as is_after from b
  union all
  -- The second campaign is taken to be faster by what is tolerated.
  select protocol, fault, if(a_ns = {NEVER_NS}, a_ns, 100 * a_ns div {100 + TOLERATED}), true from a),
ranked as (
  select *, rank() over (partition by protocol, fault order by ns) as first,
         count(*) over (partition by protocol, fault, ns) as ties
  from mixed),
ranks as (
  select protocol, fault, sum(if(is_after, first + (ties - 1) / 2, 0)) as rank_sum, sum(ties * ties - 1) as tie_sum
  from ranked group by protocol, fault)
select fault as subject, * from paired join ranks using (protocol, fault) order by protocol, fault"""

_COVERAGE = """
with reached as (
  select distinct campaign, protocol, plan_digest, state, fault
  from coverage join (select campaign, protocol, run, plan_digest from runs) using (campaign, protocol, run))
select protocol, concat(state, ', ', if(fault = '', 'no fault', fault)) as subject,
       count_if(campaign = :before) as before, count_if(campaign = :after) as after
from reached group by protocol, state, fault order by protocol, state, fault"""


class _Row(Struct, frozen=True):
    """A row of the statements above: texts, and its numbers by name."""

    protocol: str
    subject: str
    n: dict[str, int]


def compare(engine: Engine, before: str, after: str) -> list[Finding]:
    """Compare two campaigns of a dataset; what is worse comes first."""

    def rows(sql: str) -> list[_Row]:
        answers = engine.table(sql, {"before": before, "after": after}).to_pylist()
        return [_Row(answer.pop("protocol"), answer.pop("subject"), answer) for answer in answers]

    outcomes = rows(_OUTCOMES)
    lost = [_finding_of_lost_protocol(row) for row in outcomes if row.n["of_before"] and not row.n["of_after"]]
    plans = {row.protocol: row.n for row in outcomes if row.n["of_before"] and row.n["of_after"]}
    findings = [finding for row in outcomes if row.protocol in plans for finding in _findings_of_outcomes(row)]
    findings += [_finding_of_kind(row, plans[row.protocol]) for row in rows(_KINDS) if row.protocol in plans]
    findings += [_finding_of_recovery(row) for row in rows(_RECOVERY) if row.protocol in plans]
    findings += [
        _finding_of_coverage(row, plans[row.protocol]) for row in rows(_COVERAGE) if row.protocol in plans and row.n["before"]
    ]
    return sorted([*lost, *_corrected_findings(findings)], key=lambda finding: not finding.worse)


def _corrected_findings(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Correct each p for the number of tests, and judge by it what is not proven."""
    tests = Counter(finding.what for finding in findings if finding.p is not None)
    for finding in findings:
        if finding.p is None:
            yield finding
            continue
        p = min(1.0, finding.p * tests[finding.what] * len(tests))
        yield structs.replace(finding, p=p, worse=p <= LEVEL)


def _finding_of_lost_protocol(row: _Row) -> Finding:
    """The finding for a protocol that the second campaign did not perform, which is worse."""
    performed = row.n["of_before"]
    return Finding(
        protocol=row.protocol, what="protocol", subject="", before=performed, of_before=performed, after=0, of_after=0, worse=True
    )


def _findings_of_outcomes(row: _Row) -> Iterator[Finding]:
    """How many plans had each bad outcome in both campaigns; INVALID or not live after VALID is proof, the rest a p-value."""
    names: tuple[tuple[What, str], ...] = (("invalid", "invalid"), ("not-live", "stuck"), ("unknown", "unknown"))
    for what, name in names:
        before, after, changed = (row.n[f"{name}_{side}"] for side in ("before", "after", "changed"))
        proven = what != "unknown" and (changed > 0 or (before == 0 and after > 0))
        yield Finding(
            protocol=row.protocol,
            what=what,
            subject="",
            before=before,
            of_before=row.n["of_before"],
            after=after,
            of_after=row.n["of_after"],
            changed=changed,
            p=None if proven else _p_of_more(after, row.n["of_after"], before, row.n["of_before"]),
            worse=proven,
        )


def _finding_of_kind(row: _Row, plans: dict[str, int]) -> Finding:
    """A kind of anomaly. Only a kind that the first campaign never had is judged: the others count in `invalid`."""
    before, after, changed = row.n["before"], row.n["after"], row.n["changed"]
    proven = before == 0 and (changed > 0 or plans["invalid_before"] == 0)
    return Finding(
        protocol=row.protocol,
        what="new-anomaly",
        subject=row.subject,
        before=before,
        of_before=plans["of_before"],
        after=after,
        of_after=plans["of_after"],
        changed=changed,
        p=None if before or proven else _p_of_more(after, plans["of_after"], 0, plans["of_before"]),
        worse=proven,
    )


def _finding_of_recovery(row: _Row) -> Finding:
    """Whether runs recover more slowly: plan by plan if both campaigns share plans, else all against all."""
    slower, faster, pairs = row.n["slower"], row.n["faster"], row.n["pairs"]
    return Finding(
        protocol=row.protocol,
        what="recovery",
        subject=row.subject,
        before=_reached_ns(row.n["before"]),
        of_before=row.n["of_before"],
        after=_reached_ns(row.n["after"]),
        of_after=row.n["of_after"],
        changed=slower if pairs else None,
        p=_mostly(slower, faster) if pairs else _p_of_higher(row.n),
    )


def _finding_of_coverage(row: _Row, plans: dict[str, int]) -> Finding:
    """Whether fewer plans reach this state."""
    before, after = row.n["before"], row.n["after"]
    return Finding(
        protocol=row.protocol,
        what="coverage",
        subject=row.subject,
        before=before,
        of_before=plans["of_before"],
        after=after,
        of_after=plans["of_after"],
        p=_p_of_more(before, plans["of_before"], after, plans["of_after"]),
    )


def _reached_ns(ns: int | None) -> int | None:
    return None if ns == NEVER_NS else ns


def _p_of_more(many: int, of_many: int, few: int, of_few: int) -> float:
    """Fisher's exact test, one-sided: how likely is a share of at least many / of_many if both shares are equal?"""
    return float(stats.hypergeom.sf(many - 1, of_many + of_few, many + few, of_many))


def _mostly(slower: int, faster: int) -> float:
    """The sign test: how likely are so many slower plans if slower and faster are equally likely?"""
    return float(stats.binom.sf(slower - 1, slower + faster, 0.5))


def _p_of_higher(n: dict[str, int]) -> float | None:
    """The Mann-Whitney test with corrections for ties and continuity; None if one campaign has no such fault."""
    after = n["of_after"]
    both = n["of_after"] + n["of_before"]
    if not after or after == both:
        return None
    excess = float(n["rank_sum"]) - after * (both + 1) / 2 - 0.5
    variance = after * (both - after) / 12 * (both + 1 - float(n["tie_sum"]) / (both * (both - 1)))
    return float(stats.norm.sf(excess / variance**0.5)) if variance > 0 else 1.0
