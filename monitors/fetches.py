"""Rules of fetches and produces: which records an answer has, when an offset is out of range, what a follower takes from it."""

from collections.abc import Iterable

from monitors.engine import Never, Rule, Within
from monitors.patterns import Exchange, Heard, Key, Memory, Sent, answered, granted, heard, noted, refused, replied, sent
from reference.config import BrokerConfig
from reference.errors import ErrorCode
from reference.messages import Fetch, Produce
from reference.sealed import count
from reference.types import NO_EPOCH, TopicPartition, topic_of


def _answers_from_elsewhere(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """Records that do not begin with the batch that holds the offset asked for."""
    request, reply = exchange.request, exchange.reply
    if not reply.batches:
        return ()
    first = reply.batches[0]
    is_there = first.base_offset <= request.offset < first.base_offset + count(first.values)
    return () if is_there else [(request.tp, request.offset, first.base_offset)]


def _refusals_in_range(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """An OFFSET_OUT_OF_RANGE for an offset that is not beyond the log end."""
    request = exchange.request
    end = memory.of("leo", exchange.request.tp)
    if exchange.reply.error is ErrorCode.OFFSET_OUT_OF_RANGE and end is not None and 0 <= request.offset <= end:
        yield request.tp, request.offset, end


def _answers_beyond_the_end(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """An answer without error to a fetch beyond the log end that names no epoch."""
    request = exchange.request
    end = memory.of("leo", exchange.request.tp)
    names_its_epoch = request.last_epoch != NO_EPOCH  # then it is told where the logs diverge
    is_beyond = not names_its_epoch and end is not None and request.offset > end
    return [(request.tp, request.offset, end)] if is_beyond else ()


def _raised_hw(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """(partition, HW) of an answer to the follower's last fetch that raises its high watermark, as far as its log reaches."""
    request, reply = exchange.request, exchange.reply
    hw, end = memory.of("hw", request.tp), memory.of("leo", request.tp)
    is_awaited = request.replica is not None and memory.of("fetch", request.tp) == request.correlation
    if not is_awaited or reply.error is not ErrorCode.NONE or reply.diverging is not None or None in (hw, end):
        return ()
    if reply.batches:
        last = reply.batches[-1]
        end = last.base_offset + count(last.values) if reply.batches[0].base_offset == end else hw
    told = min(reply.hw, end) if memory.config.variant.hw_clamp else reply.hw
    return [(request.tp, told)] if min(reply.hw, end) > hw else ()


def _appended_under_acks_1(event: Heard, memory: Memory) -> Iterable[Key]:
    """A produce with acks=1 to the leader that waits for no flush."""
    produce = event.message
    leads = memory.of("role", produce.tp) == ""
    is_prompt = produce.acks == 1 and leads and not _is_flushed_first(memory.config, produce.tp)
    return [(event.source, produce.correlation)] if is_prompt else ()


def _is_flushed_first(config: BrokerConfig, tp: TopicPartition) -> bool:
    return any(spec.name == topic_of(tp) and spec.flush == "before_ack" for spec in config.topics)


def _fetches_beyond_flush(send: Sent, memory: Memory) -> Iterable[Key]:
    """A follower's fetch that tells its leader of records that are not durable: (partition, offset, durable end)."""
    message = send.message
    durable = memory.of("durable", message.tp)
    is_own = message.replica is not None and durable is not None
    if is_own and _is_flushed_first(memory.config, message.tp) and message.offset > durable:
        yield message.tp, message.offset, durable


FETCHES: tuple[Rule, ...] = (
    Never(
        name="fetched-before-flush",
        clause="R-134, docs/promise.md DUR-5",
        says="a replica of {0} fetched from offset {1}; its log is durable up to {2}",
        what=sent(Fetch, keys=_fetches_beyond_flush),
    ),
    Never(
        name="answered-from-elsewhere",
        clause="R-016",
        says="a fetch of {0} from offset {1} was answered with records from {2} on",
        what=granted(Fetch, keys=_answers_from_elsewhere),
    ),
    Never(
        name="offset-in-range-refused",
        clause="R-036, R-078",
        says="a fetch of {0} from offset {1} was out of range; the log ends at {2}",
        holds=lambda config: config.variant.fetch_between_hw_leo == "empty",
        what=refused(Fetch, keys=_refusals_in_range),
    ),
    Never(
        name="fetched-beyond-the-end",
        clause="R-078",
        says="a fetch of {0} from offset {1} was carried out; the log ends at {2}",
        what=granted(Fetch, keys=_answers_beyond_the_end),
    ),
    Within(
        name="hw-not-followed",
        clause="R-061",
        says="the leader told a high watermark of {0} that raises the follower's to {1}, and the follower did not take it",
        after=answered(Fetch, keys=_raised_hw),
        then=noted("hw", keys=lambda note, _: [(note.tp, note.hw)]),
    ),
    Within(
        name="acknowledgement-waits",
        clause="R-140",
        says="a produce of {0} with acks=1 was not answered when its records were appended",
        after=heard(Produce, keys=_appended_under_acks_1),
        then=replied(Produce, keys=lambda x, _: [(x.peer, x.reply.correlation)]),
    ),
)
