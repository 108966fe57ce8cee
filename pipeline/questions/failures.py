"""Causes of failures, and runs that do not repeat."""

from pipeline.questions.question import CAMPAIGN, NEVER_NS, PROTOCOL, Question, columns

TRIAGE = Question(
    name="triage",
    title="Causes of failures",
    words="Which causes do the failed runs have, and which plan with the fewest fault windows shows each?",
    columns=columns(
        campaign=CAMPAIGN,
        protocol=PROTOCOL,
        signature="signature of the cause (docs/triage.md)",
        runs="failed runs with it: not VALID, or not live",
        failed="all failed runs of the campaign and protocol",
        invalid="how many of `runs` are INVALID",
        words="the anomaly of the shown run that its signature names, or what else is wrong with it",
        in_effect="fault kinds in effect when that anomaly was proven, separated by commas",
        plan="the plan with the fewest fault windows that shows the cause",
        seed="its seed",
        fault_windows="its fault windows",
        run="its run",
        repeat="the command that repeats it",
    ),
    sql=f"""
with failures as (
  select campaign, protocol, coalesce(signature, '') as signature, run, plan, seed, fault_windows, repeat, end_ns, verdict,
         failure
  from runs where verdict <> 'VALID' or live is false),
causes as (
  select campaign, protocol, signature, count(*) as runs, count_if(verdict = 'INVALID') as invalid,
         min_by(struct(plan, seed, fault_windows, run, repeat, failure), struct(fault_windows, end_ns, run)) as shown
  from failures group by campaign, protocol, signature),
found as (
  select campaign, protocol, run,
         min_by(struct(a.words, a.in_effect), struct(
           not startswith(signature, concat(a.kind, '/', a.checker)), coalesce(a.at_ns, {NEVER_NS}), a.kind, a.key, a.words
         )) as first
  from anomalies a join failures f using (campaign, protocol, run) group by campaign, protocol, run),
judged as (
  select campaign, protocol, run, min(case when size(not_live) > 0 then not_live[0]
                                           when size(unchecked) > 0 then unchecked[0] end) as reason
  from verdicts group by campaign, protocol, run)
select c.campaign, c.protocol, signature, runs, sum(runs) over (partition by c.campaign, c.protocol) as failed, invalid,
       coalesce(first.words, shown.failure, reason, '') as words, coalesce(array_join(first.in_effect, ','), '') as in_effect,
       shown.plan, shown.seed, shown.fault_windows, shown.run, shown.repeat
from causes c left join found f on c.campaign = f.campaign and c.protocol = f.protocol and c.shown.run = f.run
left join judged j on c.campaign = j.campaign and c.protocol = j.protocol and c.shown.run = j.run
order by c.campaign, c.protocol, runs desc, signature""",
)

FLAKY = Question(
    name="flaky",
    title="Runs that do not repeat",
    words="Which plans gave two digests or two verdicts on one build?",
    columns=columns(
        protocol=PROTOCOL,
        backend="backend that performed the runs",
        commit="commit of the build",
        plan_digest="digest of the plan",
        plan="its name",
        runs="completed runs of the plan, in all campaigns that are asked about",
        digests="number of different digests; differing digests are reported of the simulator alone",
        verdicts="the different verdicts, separated by commas, with `not live` where a run was not",
        one="a run, with its campaign",
        other="a run that differs from it",
        repeat="the command that repeats the plan",
    ),
    sql="""
with performed as (
  select protocol, backend, commit, plan_digest, plan, digest, concat_ws('/', campaign, run) as run, repeat,
         concat(verdict, if(live is false, ' not live', '')) as verdict
  from runs where outcome = 'completed'),
compared as (
  select protocol, backend, commit, plan_digest, min(plan) as plan, count(*) as runs, count(distinct digest) as digests,
         array_join(sort_array(collect_set(verdict)), ',') as verdicts, count(distinct verdict) as different,
         min(struct(if(backend = 'sim', digest, '') as digest, verdict, run)) as one,
         max(struct(if(backend = 'sim', digest, '') as digest, verdict, run)) as other, min(repeat) as repeat
  from performed group by protocol, backend, commit, plan_digest)
select protocol, backend, commit, plan_digest, plan, runs, digests, verdicts, one.run as one, other.run as other, repeat
from compared where different > 1 or (backend = 'sim' and digests > 1) order by protocol, backend, commit, plan, plan_digest""",
)
