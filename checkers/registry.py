"""The list of all checkers. Importing it imports no judge of foreign histories, which are slow to import."""

from checkers.clients import answers, background, calls, committed_offsets, duplicates, order, polls, producers
from checkers.control import clauses, election, electorate, fencing, incarnations, single_leader, state_writes, succession
from checkers.durability import (
    acked_loss,
    deletion,
    flushes,
    isr_agreement,
    log_matching,
    monotonic_hw,
    offset_agreement,
    topic_identity,
)
from checkers.engine.checker import Checker
from checkers.liveness import (
    advance,
    availability,
    brokers,
    convergence,
    demotions,
    laggards,
    metadata,
    metrics,
    progress,
    promptness,
    replacement,
)
from checkers.observing import IN_PLACE_OF_NOTES
from checkers.validity import assertions, assumptions, vacuity

# acked-loss comes first: the excused losses that it finds are an input to the others.
ALL: tuple[Checker, ...] = (
    acked_loss.CHECKER,
    offset_agreement.CHECKER,
    order.CHECKER,
    duplicates.CHECKER,
    answers.CHECKER,
    producers.CHECKER,
    calls.CHECKER,
    background.CHECKER,
    polls.CHECKER,
    committed_offsets.CHECKER,
    monotonic_hw.CHECKER,
    single_leader.LEADERS,
    single_leader.CONTROLLERS,
    isr_agreement.CHECKER,
    log_matching.CHECKER,
    election.CHECKER,
    electorate.CHECKER,
    flushes.CHECKER,
    state_writes.CHECKER,
    succession.CHECKER,
    fencing.CHECKER,
    incarnations.CHECKER,
    deletion.CHECKER,
    topic_identity.CHECKER,
    assertions.CHECKER,
    clauses.CHECKER,
    assumptions.CHECKER,
    vacuity.CHECKER,
    availability.PARTITIONS,
    availability.CLUSTER,
    progress.CHECKER,
    advance.CHECKER,
    replacement.CHECKER,
    laggards.CHECKER,
    demotions.CHECKER,
    promptness.CHECKER,
    brokers.CHECKER,
    convergence.CHECKER,
    metadata.CHECKER,
    metrics.CHECKER,
)

# In place of the ledger, where brokers note nothing (`checkers.observing`).
OF_BLACK_BOXES: tuple[Checker, ...] = IN_PLACE_OF_NOTES
