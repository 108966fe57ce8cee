"""How long partitions were unavailable, how long they took to recover, and how long calls took, by fault.

All quantiles are nearest-rank quantiles. Those of windows are exact. Latencies are first cut to four digits, which makes them at
most 0.1 % too low and bounds the memory by 9,000 different values a power of ten; the quantiles of the cut values are exact.
"""

from pipeline.questions.question import CAMPAIGN, NEVER_NS, PROTOCOL, Question, columns, quantile

_ACTED = f"""
acted as (
  select campaign, protocol, run, window, kind as fault, nodes, begun_ns, unavailable_ns, recovery_ns,
         coalesce(recovery_ns, {NEVER_NS}) as until_ns, seed, repeat
  from windows join (select campaign, protocol, run, seed, repeat from runs) using (campaign, protocol, run)
  where acted > 0)"""


def _recovery(share: float) -> str:
    return f"nullif({quantile(share, 'until_ns')}, {NEVER_NS})"


RECOVERY = Question(
    name="recovery",
    title="Unavailability and recovery",
    words="How long were partitions unavailable in the windows of a fault, and how long did they take to recover?",
    columns=columns(
        campaign=CAMPAIGN,
        protocol=PROTOCOL,
        fault="fault kind",
        windows="windows in which it took effect; the others are left out",
        runs="runs with such a window",
        unavailable_p50_ns="median over the windows of the longest time without an acknowledged produce",
        unavailable_p90_ns="90 % quantile",
        unavailable_max_ns="longest",
        recovery_p50_ns="median of the time from the end of a window until each partition had an acknowledged produce again",
        recovery_p90_ns="90 % quantile; null: the partitions of that many windows never had one",
        recovery_max_ns="longest; null as above",
        never="windows after which a partition never had one",
        slowest_seed="seed of the slowest recovery",
        slowest_window="id of its window",
        slowest_run="its run",
        repeat="the command that repeats it",
    ),
    sql=f"""
with {_ACTED},
summed as (
  select campaign, protocol, fault, count(*) as windows, count(distinct run) as runs,
         {quantile(0.5, "unavailable_ns")} as unavailable_p50_ns, {quantile(0.9, "unavailable_ns")} as unavailable_p90_ns,
         max(unavailable_ns) as unavailable_max_ns,
         {_recovery(0.5)} as recovery_p50_ns, {_recovery(0.9)} as recovery_p90_ns, {_recovery(1.0)} as recovery_max_ns,
         count_if(recovery_ns is null) as never,
         max_by(struct(seed, window, run, repeat), struct(until_ns, run, window)) as slowest
  from acted group by campaign, protocol, fault)
select * except (slowest), slowest.seed as slowest_seed, slowest.window as slowest_window, slowest.run as slowest_run,
       slowest.repeat
from summed order by campaign, protocol, fault""",
)

SLOWEST_KEPT = 3  # windows for each fault kind

SLOWEST = Question(
    name="slowest",
    title="Slowest recoveries",
    words=f"Which {SLOWEST_KEPT} windows of each fault kind took longest to recover?",
    columns=columns(
        campaign=CAMPAIGN,
        protocol=PROTOCOL,
        fault="fault kind",
        place="1 for the slowest",
        recovery_ns="from the end of the window until each partition had an acknowledged produce; null: one never had",
        unavailable_ns="the longest time without an acknowledged produce that began in the window",
        seed="seed of the run",
        run="the run",
        window="id of the window",
        nodes="brokers that it hurt, separated by commas",
        begun_ns="begin of the window",
        repeat="the command that repeats the run",
    ),
    sql=f"""
with {_ACTED},
ranked as (
  select *, row_number() over (partition by campaign, protocol, fault order by until_ns desc, run, window) as place from acted)
select campaign, protocol, fault, place, recovery_ns, unavailable_ns, seed, run, window,
       array_join(nodes, ',') as nodes, begun_ns, repeat
from ranked where place <= {SLOWEST_KEPT} order by campaign, protocol, fault, place""",
)

OUTSIDE, INSIDE = "outside", "inside"
# Integers with more than four digits end with zeros.
_CUT = "latency_ns - latency_ns % cast(pow(10, greatest(0, length(cast(latency_ns as string)) - 4)) as bigint)"

LATENCY = Question(
    name="latency",
    title="Latency inside and outside of fault windows",
    words="How long did calls take, and how many succeeded, outside of all fault windows and inside those of each fault?",
    columns=columns(
        campaign=CAMPAIGN,
        protocol=PROTOCOL,
        f="operation",
        fault="`outside` of all windows, `inside` of any, or a fault kind in effect at the invocation",
        calls="calls; one with two faults in effect counts under both",
        ok_share="share of calls that succeeded",
        fail_share="share that certainly failed",
        info_share="share without an answer or of unknown outcome",
        p50_ns="median latency of the calls that succeeded",
        p95_ns="95 % quantile",
        p99_ns="99 % quantile",
        max_ns="longest",
    ),
    sql=f"""
with timed as (
  select campaign, protocol, f, type, if(type = 'ok', {_CUT}, null) as cut_ns,
         explode(if(size(in_effect) = 0, array('{OUTSIDE}'), array_append(in_effect, '{INSIDE}'))) as fault
  from calls)
select campaign, protocol, f, fault, count(*) as calls,
       count_if(type = 'ok') / count(*) as ok_share, count_if(type = 'fail') / count(*) as fail_share,
       count_if(type = 'info') / count(*) as info_share,
       {quantile(0.5, "cut_ns")} as p50_ns, {quantile(0.95, "cut_ns")} as p95_ns, {quantile(0.99, "cut_ns")} as p99_ns,
       max(cut_ns) as max_ns
from timed group by campaign, protocol, f, fault
order by campaign, protocol, f, case fault when '{OUTSIDE}' then 0 when '{INSIDE}' then 1 else 2 end, fault""",
)
