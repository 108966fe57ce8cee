"""The engine of the rules: each rule is an automaton for each key, and all rules see each turn once.

A rule has one of three forms. `Never`: an item may not happen, or not while the span of its key is open. `Within`: what begins
must be followed, in the same turn. `Rising`: a value never falls. `Keep` judges nothing; it keeps facts for rules. An item
first ends spans, then is judged, then begins spans, and facts are kept last; so a rule sees the facts from before the item.

A rule holds under settings (`holds`): a variant of the protocol that leaves its clause out is not judged by it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args

from msgspec import Struct

from monitors.patterns import ALL, ANY, Exchange, Key, Keys, Memory, OfTimer, Outcome, Pattern
from reference.config import BrokerConfig
from reference.coordination.api import AnyOp
from reference.effects import AnyEffect, Note, Send, SetTimer, ZkRequest
from reference.errors import ErrorCode
from reference.events import AnyEvent, ConnectionLost, Received, TimerFired, ZkReplied
from reference.messages import Message, Reply, Request
from reference.types import Address, TopicPartition

BROKEN = "rule-broken"  # the kind of the note
_REPLIES: frozenset[type] = frozenset(cls for part in get_args(Reply) for cls in (get_args(part) or (part,)))
_REQUESTS: frozenset[type] = frozenset(cls for part in get_args(Request) for cls in (get_args(part) or (part,)))


def _always(config: BrokerConfig) -> bool:
    return True


class Rule(Struct, frozen=True, kw_only=True):
    """A clause as a rule. `says` becomes the words of a finding; {0}, {1} … stand for the parts of its key."""

    name: str
    clause: str
    says: str
    holds: Callable[[BrokerConfig], bool] = _always


class Never(Rule, frozen=True, kw_only=True):
    """`what` never happens; with `since`, never for a key from `since` on `until` something ends that."""

    what: tuple[Pattern, ...]
    since: tuple[Pattern, ...] = ()
    until: tuple[Pattern, ...] = ()
    in_turn: bool = False  # the span ends with the turn


class Within(Rule, frozen=True, kw_only=True):
    """In a turn that has `after` for a key, `then` follows for it. A process that closes (fact "shutting-down") owes nothing."""

    after: tuple[Pattern, ...]
    then: tuple[Pattern, ...]


class Rising(Rule, frozen=True, kw_only=True):
    """`of` gives (key, value): the value of a key never falls until the key is forgotten."""

    of: tuple[Pattern, ...]
    until: tuple[Pattern, ...] = ()


class Keep(Struct, frozen=True, kw_only=True):
    """Keep facts: `of` gives (key, value); a value of None forgets the key, ANY as a key forgets all."""

    fact: str
    of: tuple[Pattern, ...]


# The keys of an item, what is done for each, and the spans without which nothing is done.
_Step = tuple[Keys, Callable[[Any], object], Mapping[Any, Any]]
_Steps = dict[type | str, list[_Step]]  # by class, kind of note or kind of timer
_ANSWERS = ("granted", "refused")  # the sides of an answer of the process
_ALWAYS: Mapping[Any, Any] = {ALL: None}


class Watch:
    """The rules that hold for one life of a broker process."""

    def __init__(self, config: BrokerConfig, rules: Iterable[Rule], facts: Iterable[Keep]) -> None:
        self.memory = Memory(config)
        self._broken: list[Note] = []
        self._at_turn_end: list[Callable[[], None]] = []  # to be done at the end of the turn
        on: defaultdict[str, _Steps] = defaultdict(dict)
        self._on_side = on
        for rule in rules:
            if rule.holds(config):
                self._watch_rule(rule)
        for keep in facts:
            self._watch_fact(keep)
        self._heard, self._sent, self._answered = on["heard"], on["sent"], on["answered"]
        self._granted, self._refused = (on[side] for side in _ANSWERS)
        self._replied = self._granted.keys() | self._refused.keys()
        self._asked, self._read, self._noted, self._did = on["asked"], on["read"], on["noted"], on["did"]
        self._armed, self._fired = on["armed"], on["fired"]
        self._requests: dict[tuple[Address, int], Message] = {}  # of this process, by peer and correlation
        self._operations: dict[int, tuple[AnyOp, ...]] = {}

    # --- rules --------------------------------------------------------------------------------------------------------------

    def _on(self, patterns: tuple[Pattern, ...], act: Callable[[Any], object], spans: Mapping[Any, Any] = _ALWAYS) -> None:
        """Do something for each key of each item that a pattern fits; with `spans` only while one is open."""
        for pattern in patterns:
            for side in _ANSWERS if pattern.side == "replied" else (pattern.side,):
                self._on_side[side].setdefault(pattern.of, []).append((pattern.keys, act, spans))

    def _watch_rule(self, rule: Rule) -> None:
        """Register the steps that judge a rule, by its kind."""
        match rule:
            case Never():
                self._watch_never(rule)
            case Within():
                self._watch_within(rule)
            case Rising():
                self._watch_rising(rule)

    def _watch_never(self, rule: Never) -> None:
        """`what` accuses while a span is open, or always if the rule has none."""
        if not rule.since:
            self._on(rule.what, lambda key: self._accuse(rule, key))
            return
        spans: dict[Key, None] = {}
        self._on(rule.until, lambda key: _end_spans(spans, key), spans)
        self._on(rule.what, lambda key: self._accuse(rule, key) if key in spans else None, spans)

        def begin(key: Key) -> None:
            if rule.in_turn and not spans:
                self._at_turn_end.append(spans.clear)
            spans[key] = None

        self._on(rule.since, begin)

    def _watch_within(self, rule: Within) -> None:
        """What `after` asks for must have come by `then` when the turn ends."""
        wanted: dict[Key, None] = {}

        def end() -> None:
            for key in wanted:
                self._accuse(rule, key)
            wanted.clear()

        def begin(key: Key) -> None:
            if self.memory.facts.get("shutting-down"):
                return  # a process that closes ignores all but its disks
            if not wanted:
                self._at_turn_end.append(end)
            wanted[key] = None

        self._on(rule.then, lambda key: wanted.pop(key, None), wanted)
        self._on(rule.after, begin)

    def _watch_rising(self, rule: Rising) -> None:
        """The values of a key must not fall until `until`."""
        values: dict[Key, Any] = {}
        self._on(rule.until, lambda key: _end_spans(values, key), values)

        def judge(pair: tuple[Key, Any]) -> None:
            key, value = pair
            if value < values.get(key, value):
                self._accuse(rule, (*key, values[key], value))
            values[key] = value

        self._on(rule.of, judge)

    def _watch_fact(self, keep: Keep) -> None:
        """Keep the latest value of each key as a fact; ANY forgets all, None one key."""
        known = self.memory.facts.setdefault(keep.fact, {})

        def put(pair: tuple[Any, Any]) -> None:
            key, value = pair
            if key is ANY:
                known.clear()
            elif value is None:
                known.pop(key, None)
            else:
                known[key] = value

        self._on(keep.of, put)

    def _accuse(self, rule: Rule, key: Key) -> None:
        """Note that a turn broke the rule, and for which partition if the key names one."""
        tp = next((part for part in key if isinstance(part, str) and "-" in part), None)
        self._broken.append(
            Note(
                kind=BROKEN,
                tp=None if tp is None else TopicPartition(tp),
                detail=f"{rule.name}: {rule.says.format(*key)} ({rule.clause})",
            )
        )

    # --- turns --------------------------------------------------------------------------------------------------------------

    def turn(self, event: AnyEvent, effects: Sequence[AnyEffect]) -> list[Note]:
        """The notes of the rules that this turn breaks."""
        self.memory.event = event
        cls: type = event.__class__
        if cls is Received:
            self._take_received(event)  # type: ignore[arg-type]
        else:
            if cls is ZkReplied:
                self._take_answers(event)  # type: ignore[arg-type]
            elif cls is ConnectionLost:
                self._drop_requests_of(event.peer)  # type: ignore[union-attr]
            elif cls is TimerFired:
                self._take_timer(self._fired, event)  # type: ignore[arg-type]
            if cls in self._heard:
                self._run_steps(self._heard[cls], event)
        noted, did = self._noted, self._did
        for effect in effects:
            cls = effect.__class__
            if cls is Send:
                self._take_sent(effect)  # type: ignore[arg-type]
                continue
            if cls is Note:
                steps = noted.get(effect.kind)  # type: ignore[union-attr]
            else:
                if cls is ZkRequest:
                    self._take_request(effect)  # type: ignore[arg-type]
                elif cls is SetTimer:
                    self._take_timer(self._armed, effect)  # type: ignore[arg-type]
                steps = did.get(cls)
            if steps is not None:
                self._run_steps(steps, effect)
        if self._at_turn_end:
            for end in self._at_turn_end:
                end()
            self._at_turn_end.clear()
        if not self._broken:
            return []
        broken, self._broken = self._broken, []
        return broken

    def _run_steps(self, steps: list[_Step], item: Any) -> None:
        """Do what each step asks for, once for each key that it finds in the item."""
        memory = self.memory
        for keys, act, spans in steps:
            if spans:
                for key in keys(item, memory):
                    act(key)

    def _take_timer(self, steps: _Steps, timer: SetTimer | TimerFired) -> None:
        """Show a timer to the steps of its kind."""
        kind, _, about = timer.name.partition(":")
        if kind in steps:
            self._run_steps(steps[kind], OfTimer(about, timer))

    def _take_received(self, event: Received) -> None:
        """Show a received message: an answer with its request, a request that now waits for ours."""
        message = event.message
        cls = message.__class__
        if cls in _REPLIES:
            request = self._requests.pop((event.source, message.correlation), None)
            if request is not None:
                self._run_steps(self._answered[request.__class__], Exchange(event.source, request, message))
        elif cls in self._replied:
            self.memory.unanswered[event.source, message.correlation] = message
        if cls in self._heard:
            self._run_steps(self._heard[cls], event)

    def _drop_requests_of(self, peer: Address) -> None:
        """Forget what a peer asked: a real broker drops the parked requests of a client that is gone."""
        for request in [request for request in self.memory.unanswered if request[0] == peer]:
            del self.memory.unanswered[request]

    def _take_sent(self, effect: Send) -> None:
        """Show a sent message: a request that now waits for its answer, an answer with its request."""
        message = effect.message
        cls = message.__class__
        if cls in self._answered:
            self._requests[effect.to, message.correlation] = message
        elif cls in _REPLIES:
            request = self.memory.unanswered.pop((effect.to, message.correlation), None)
            if request is not None:
                is_granted = message.error is ErrorCode.NONE  # type: ignore[union-attr]
                steps = (self._granted if is_granted else self._refused).get(request.__class__)
                if steps is not None:
                    self._run_steps(steps, Exchange(effect.to, request, message))
        if cls in self._sent:
            self._run_steps(self._sent[cls], effect)

    def _take_request(self, effect: ZkRequest) -> None:
        """Remember the operations of a request whose answers some rule reads, and show each operation."""
        if any(op.__class__ in self._read for op in effect.ops):
            self._operations[effect.id] = effect.ops
        for op in effect.ops:
            if op.__class__ in self._asked:
                self._run_steps(self._asked[op.__class__], op)

    def _take_answers(self, event: ZkReplied) -> None:
        """Show each operation with its answer, and whether no later request repeats it."""
        ops = self._operations.pop(event.id, ())
        for op, answer in zip(ops, event.answers, strict=False):
            if steps := self._read.get(op.__class__):
                last = not any(op in later for later in self._operations.values())
                self._run_steps(steps, Outcome(op, answer, len(ops) == 1, last))


def _end_spans(spans: dict[Key, Any], key: Key) -> None:
    """End the spans of a key; ANY in it stands for every value, and `ALL` ends all."""
    if key == ALL:
        spans.clear()
    elif ANY in key:
        fitting = [span for span in spans if all(part is ANY or part == held for part, held in zip(key, span, strict=False))]
        for span in fitting:
            del spans[span]
    else:
        spans.pop(key, None)
