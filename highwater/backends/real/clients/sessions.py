"""Sessions of a Kafka client with librdkafka: transactions, and members of consumer groups. Calls block; its thread waits."""

from typing import Any, assert_never

from highwater.backends.real.clients.members import Member
from highwater.backends.real.clients.shared_ids import SharedIds
from highwater.backends.real.clients.transactions import TransactionalProducer, Transactions
from highwater.rig.attempts import Reply
from highwater.rig.sessions import (
    CommitCall,
    CommittedCall,
    GroupAbandonCall,
    GroupLeaveCall,
    GroupPollCall,
    GroupPositionsCall,
    ProcessCall,
    ReadCommittedCall,
    SessionCall,
    ShareCall,
    StepCall,
    TxnCall,
)
from workloads.parameters import AutoCommit


class Sessions:
    """The sessions of one client, which performs one call at a time."""

    def __init__(
        self,
        name: str,
        settings: dict[str, Any],
        *,
        timeout_ms: int,
        run: str = "",
        membership: str = "",
        auto_commit: AutoCommit | None = None,
    ) -> None:
        """`run` ends the transactional id and the names of groups: on a cluster that stays, earlier runs have left theirs."""
        producer = TransactionalProducer(f"{name}{run}", settings, timeout_ms=timeout_ms)
        self._transactions = Transactions(producer, settings, timeout_ms=timeout_ms)
        self._shared_ids = SharedIds(settings, timeout_ms=timeout_ms, run=run)
        self._member = Member(
            producer, name, settings, timeout_ms=timeout_ms, run=run, membership=membership, auto_commit=auto_commit
        )

    def perform(self, call: SessionCall) -> Reply:
        """Perform one call."""
        match call:
            case TxnCall():
                return self._transactions.perform(call)
            case StepCall():
                return self._shared_ids.perform(call)
            case ShareCall():
                raise AssertionError("share groups are refused with this library before the run")
            case ReadCommittedCall():
                return self._transactions.read(call)
            case ProcessCall():
                return self._member.process(call)
            case GroupPollCall():
                return self._member.poll(call)
            case GroupLeaveCall():
                self._member.close()
                return Reply(id=call.id, attempts=1)
            case GroupAbandonCall():
                self._member.abandon()
                return Reply(id=call.id, attempts=1)
            case GroupPositionsCall():
                return self._member.positions(call)
            case CommitCall():
                return self._member.commit(call)
            case CommittedCall():
                return self._member.committed(call)
            case _:
                assert_never(call)

    def close(self) -> None:
        """Close what is open."""
        self._transactions.close()
        self._shared_ids.close()
        self._member.close()
