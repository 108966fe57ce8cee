"""Which states of the protocol were reached while which faults were in effect, and which pairs never.

A pair can be reached if its state was seen in any of the campaigns that are asked about and its fault kind was begun in one. The
empty fault stands for times without a fault.
"""

from pipeline.questions.question import CAMPAIGN, PROTOCOL, Question, columns

_PAIRS = """
with chosen as (select campaign, protocol, count(*) as of_runs from runs group by campaign, protocol),
states as (select distinct state from coverage),
kinds as (select kind as fault from faults where begun > 0 union select ''),
reached as (
  select campaign, protocol, state, fault, count(distinct run) as runs, sum(count) as times
  from coverage group by campaign, protocol, state, fault),
pairs as (
  select campaign, protocol, state, fault, coalesce(runs, 0) as runs, of_runs, coalesce(times, 0) as times
  from chosen cross join states cross join kinds left join reached using (campaign, protocol, state, fault))"""

COVERAGE = Question(
    name="coverage",
    title="Coverage: protocol state and fault in effect",
    words="In how many runs did a state of the protocol occur while a fault was in effect?",
    columns=columns(
        campaign=CAMPAIGN,
        protocol=PROTOCOL,
        state="state or step of the protocol (docs/triage.md)",
        fault="fault kind in effect; empty: none was",
        runs="runs that reached the pair; 0: never reached",
        of_runs="runs of the campaign and protocol",
        times="how often all these runs reached it",
    ),
    sql=f"{_PAIRS} select * from pairs order by campaign, protocol, state, fault",
)

NEVER_REACHED = Question(
    name="never-reached",
    title="Pairs never reached",
    words="Which states of the protocol never occurred while a fault was in effect?",
    columns=columns(
        campaign=CAMPAIGN,
        protocol=PROTOCOL,
        fault="fault kind in effect; empty: none was",
        missing="number of states that were never reached with it",
        of_states="number of states that were seen anywhere",
        states="the states never reached, separated by commas",
    ),
    sql=f"""{_PAIRS}
select campaign, protocol, fault, count_if(runs = 0) as missing, count(*) as of_states,
       array_join(sort_array(collect_list(if(runs = 0, state, null))), ',') as states
from pairs group by campaign, protocol, fault having missing > 0 order by campaign, protocol, missing desc, fault""",
)
