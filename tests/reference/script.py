"""Scenarios as scripts: a text file of commands and, after each, what follows from it in the cluster.

    # V3 §A: the controller watches /brokers/ids.
    crash 1
    expire 1
    ----
    b2       watch /brokers/ids children

A block is one command or several, a line `----`, and the output up to an empty line; `ok` stands for no output.
Lines that begin with `#` are comments, and stand before and between commands. Brokers are numbers.

    cluster brokers=3 ...    begin: a topic `t` with the partition t-0 on brokers 1, 2, 3, all in the ISR, and its table; other
                             settings are replicas=1,2 min-isr=2 dirs=2 variant=v3 legacy=2,3
    start B, crash B         start a process on the broker's disk; kill it, without an end of its session
    shutdown B, expire B     ask a process to end in good order; let ZooKeeper end the broker's session
    cut X Y, join X Y        lose all messages between two brokers, or a broker and `zk`; let them arrive again
    hold KIND X->Y           keep messages of this kind in flight; * is any kind, sender or receiver
    hold-writes B PATH       keep the broker's writes below this path on their way to ZooKeeper
    let-write                let the oldest of these reach ZooKeeper, and hold those that follow
    release                  hold nothing any more; ZooKeeper gets what was on its way
    deliver [KIND X->Y]      deliver all messages and what follows from them; or only those in flight now that match
    drop KIND X->Y           lose the messages in flight that match
    in-flight                tell the messages in flight
    wait MS                  let time pass: timers run when they are due, and messages are delivered
    timer B NAME             let one timer of a broker run now
    produce B TP VALUE ...   a client's request with acks=all, or with acks=0 or acks=1 as the last word
    consume B TP OFFSET      a consumer's fetch
    metadata B               a client's question who leads
    create PATH [DATA]       an administrator writes to ZooKeeper; also create-sequential, set PATH DATA and delete PATH
    get PATH, ls PATH        what ZooKeeper holds
    fail-dir B D, mend-dir   let every access to a log directory fail, or succeed again; swap-dir: put an empty one in its place
    state [TP]               the partition in ZooKeeper and at each broker; a log is value@leader_epoch, from offset 0 on
    show KIND ..., hide ...  tell or hide messages (Fetch is also FetchReply) and notes of these kinds; hidden at first are Fetch,
                             MetadataHeartbeat, UpdateMetadata, checkpoint and gauge
    reads PATH ...           from here on tell reads of znodes whose path begins so, and no others

What is told: `b1 -> b2` a message that arrives, `b1 -x b2` one that is lost, and after a broker's name its notes, its requests to
ZooKeeper (`= ` the answer, `-> ` the version written, `! ` the error, `if` what the write depends on), and its watches. In a
message or note, `2:a,b@1` is a batch from offset 2 with leader epoch 1.
"""

from collections.abc import Callable, Iterable
from inspect import signature

from msgspec.structs import replace

from reference.config import VARIANTS
from reference.coordination.api import AnyOp, Children, Create, Delete, GetChildren, SetData
from reference.events import Received, ShutDown
from reference.messages import AnyMessage, Fetch, Metadata, Produce
from reference.types import NO_EPOCH, NO_INCARNATION, Address, Millis, Offset, TopicPartition
from tests.reference.lab import T0, Directory, Envelope
from tests.reference.stage import KINDS, MESSAGES, Stage, kind_of
from tests.reference.wording import content_in_words, message_in_words

_CLIENT, _CONSUMER = Address("c1"), Address("c2")
_ACKS = {"acks=all": -1, "acks=1": 1, "acks=0": 0}


class ScriptError(Exception):
    """A script that cannot be played; the text begins with file and line."""


def play(name: str, script: str) -> str:
    """Run the commands of a script; return the script with the output that they have now."""
    player = _Player()
    pending = False
    output = False
    played: list[str] = []
    for number, line in enumerate(script.splitlines(), 1):
        if output:
            output = bool(line)
            if line:
                continue
        elif line == "----":
            if not pending:
                raise ScriptError(f"{name}:{number}: there is no command above ----")
            played += [line, *(player.lines() or ["ok"])]
            pending, output = False, True
            continue
        elif line and not line.startswith("#"):
            pending = True
            _run(player, f"{name}:{number}", line)
        played.append(line)
    if pending:
        raise ScriptError(f"{name}:{len(played)}: a line ---- must follow the last command")
    return "\n".join(played) + "\n"


def _run(player: "_Player", place: str, line: str) -> None:
    word, *arguments = line.split()
    command = player.commands().get(word)
    if command is None:
        raise ScriptError(f"{place}: unknown command {word}; commands are {', '.join(sorted(player.commands()))}")
    try:
        signature(command).bind(*arguments)
        command(*arguments)
    except (ValueError, TypeError, LookupError) as error:
        raise ScriptError(f"{place}: {line}: {error}") from error
    except AssertionError as error:
        error.add_note(f"at {place}: {line}")
        raise


class _Player:
    """Performs commands on one cluster."""

    def __init__(self) -> None:
        self._stage: Stage | None = None
        self._correlation = 0

    def commands(self) -> dict[str, Callable[..., None]]:
        """Each command by its name."""
        return {
            "cluster": self.cluster,
            "start": lambda broker: self.stage.start(self.broker(broker, running=False)),
            "crash": lambda broker: self.stage.crash(self.broker(broker)),
            "shutdown": lambda broker: self.stage.handle_event(self.broker(broker), ShutDown()),
            "expire": lambda broker: self.stage.expire(self.broker(broker, running=None)),
            "cut": self.cut,
            "join": self.join,
            "hold": lambda kind, link: self.stage.holds.append(_matches(kind, link)),
            "hold-writes": lambda broker, path: self.stage.held_writes.update({self.broker(broker): path}),
            "let-write": self.let_write,
            "release": lambda: self.stage.release(),
            "deliver": self.deliver,
            "drop": self.drop,
            "in-flight": self.in_flight,
            "wait": lambda ms: self.stage.wait(int(ms)),
            "timer": self.timer,
            "produce": self.produce,
            "consume": self.consume,
            "metadata": self.metadata,
            "create": lambda path, data="": self.write(Create(path, data.encode())),
            "create-sequential": lambda path, data="": self.write(Create(path, data.encode(), sequential=True)),
            "set": lambda path, data: self.write(SetData(path, data.encode())),
            "delete": lambda path: self.write(Delete(path)),
            "get": self.get,
            "ls": self.ls,
            "fail-dir": lambda broker, index: setattr(self.directory(broker, index), "bad", True),
            "mend-dir": lambda broker, index: setattr(self.directory(broker, index), "bad", False),
            "swap-dir": self.swap_dir,
            "state": lambda tp=T0: self.stage.lines.extend(self.stage.table(TopicPartition(tp))),
            "show": lambda *kinds: self.stage.hidden.difference_update(_known(kinds)),
            "hide": lambda *kinds: self.stage.hidden.update(_known(kinds)),
            "reads": lambda *prefixes: setattr(self.stage, "reads", prefixes),
        }

    def lines(self) -> list[str]:
        """What happened since the last call."""
        lines, self.stage.lines = self.stage.lines, []
        return lines

    @property
    def stage(self) -> Stage:
        if self._stage is None:
            raise ValueError("a script begins with the command cluster")
        return self._stage

    def broker(self, word: str, *, running: bool | None = True) -> int:
        """The number of a broker that is running, or is not, or may be either."""
        i = int(_one_of("broker", word, map(str, self.stage.ids)))
        if running is not None and running != (i in self.stage.nodes):
            raise ValueError(f"broker {i} must {'' if running else 'not '}be running")
        return i

    def cluster(self, *settings: str) -> None:
        given = {name.replace("-", "_"): value for name, _, value in (setting.partition("=") for setting in settings)}
        signature(self.begin).bind(**given)
        self.begin(**given)

    def begin(
        self,
        *,
        brokers: str,
        replicas: str = "",
        min_isr: str = "1",
        dirs: str = "1",
        variant: str = "safe",
        legacy: str = "",
    ) -> None:
        stage = self._stage = Stage(
            int(brokers),
            variant=VARIANTS[_one_of("variant", variant, VARIANTS)],
            replicas=_numbers(replicas) or tuple(range(1, int(brokers) + 1)),
            min_isr=int(min_isr),
            log_dirs=int(dirs),
        )
        stage.zk.submit(stage.admin, (Create("/admin", b""),))
        for i in _numbers(legacy):
            stage.configs[i] = replace(stage.configs[i], inter_broker_protocol="legacy")
        for i in stage.ids:
            stage.start(i)
            stage.settle()
        stage.wait(3000)
        stage.lines = stage.table(T0)

    def cut(self, name: str, to_peer: str) -> None:
        if to_peer == "zk":
            self.stage.cut_off(self.broker(name))
        else:
            self.stage.cut.add(self._link(name, to_peer))

    def join(self, name: str, to_peer: str) -> None:
        if to_peer == "zk":
            self.stage.reconnect(self.broker(name))
        else:
            self.stage.cut.remove(self._link(name, to_peer))

    def _link(self, one: str, other: str) -> frozenset[str]:
        return frozenset(f"b{self.broker(word, running=None)}" for word in (one, other))

    def deliver(self, kind: str | None = None, link: str = "*->*") -> None:
        if kind is None:
            self.stage.settle()
        elif not self.stage.deliver(_matches(kind, link)):
            raise ValueError("no message in flight matches")

    def drop(self, kind: str, link: str = "*->*") -> None:
        lost_envelopes = [*filter(_matches(kind, link), self.stage.in_flight)]
        if not lost_envelopes:
            raise ValueError("no message in flight matches")
        for envelope in lost_envelopes:
            self.stage.in_flight.remove(envelope)

    def let_write(self) -> None:
        if not self.stage.delayed_writes:
            raise ValueError("no write is on its way")
        self.stage.let_write()

    def in_flight(self) -> None:
        for source, to, message in self.stage.in_flight:
            self.stage.say(kind_of(message), f"{source} -> {to}", message_in_words(message, self.stage.registrations))

    def timer(self, broker: str, name: str) -> None:
        i = self.broker(broker)
        self.stage.fire(i, _one_of("timer", name, self.stage.timers[i]))

    def produce(self, broker: str, tp: str, value: str, *more: str) -> None:
        values = (value, *more)
        acks = -1
        if more and more[-1].startswith("acks="):
            values, acks = values[:-1], _ACKS[_one_of("acks", more[-1], _ACKS)]
        self._ask(broker, _CLIENT, Produce(self._next(), TopicPartition(tp), acks, values, Millis(1000)))

    def consume(self, broker: str, tp: str, offset: str) -> None:
        anyone = (None, NO_INCARNATION, NO_EPOCH)
        request = Fetch(self._next(), TopicPartition(tp), *anyone, Offset(int(offset)), Millis(100), 10)
        self._ask(broker, _CONSUMER, request)

    def metadata(self, broker: str) -> None:
        self._ask(broker, _CLIENT, Metadata(self._next()))

    def _next(self) -> int:
        self._correlation += 1
        return self._correlation

    def _ask(self, broker: str, client: Address, request: AnyMessage) -> None:
        self.stage.handle_event(self.broker(broker), Received(client, request))

    def write(self, op: AnyOp) -> None:
        (answer,), fired = self.stage.zk.submit(self.stage.admin, (op,))
        if type(answer).__name__ not in ("Created", "Written", "Deleted"):
            self.stage.lines.append(f"! {type(answer).__name__}")
        self.stage.deliver_watches(fired)

    def get(self, path: str) -> None:
        znode = self.stage.read(path)
        words = "! NoNode" if znode is None else content_in_words(path, znode.data, self.stage.registrations) or "-"
        self.stage.lines.append(words)

    def ls(self, path: str) -> None:
        (answer,), _ = self.stage.zk.submit(self.stage.admin, (GetChildren(path),))
        self.stage.lines.append(f"[{', '.join(answer.names)}]" if isinstance(answer, Children) else "! NoNode")

    def directory(self, broker: str, index: str) -> Directory:
        dirs = self.stage.disks[self.broker(broker, running=None)].dirs
        return dirs[int(_one_of("log directory", index, map(str, range(len(dirs)))))]

    def swap_dir(self, broker: str, index: str) -> None:
        self.directory(broker, index)
        self.stage.disks[int(broker)].dirs[int(index)] = Directory()


def _one_of(what: str, word: str, allowed: Iterable[str]) -> str:
    words = sorted(allowed)
    if word not in words:
        raise ValueError(f"{what} must be one of {', '.join(words)}, not {word}")
    return word


def _known(kinds: tuple[str, ...]) -> list[str]:
    return [_one_of("kind", kind, KINDS) for kind in kinds]


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(int(word) for word in words.split(",")) if words else ()


def _matches(kind: str, link: str) -> Callable[[Envelope], bool]:
    _one_of("kind of message", kind, ("*", *MESSAGES))
    source, to = (word if word == "*" else f"b{int(word)}" for word in link.split("->"))
    return lambda envelope: (
        kind in ("*", type(envelope.message).__name__) and source in ("*", envelope.sender) and to in ("*", envelope.receiver)
    )
