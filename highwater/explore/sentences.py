"""Describes a schedule of the explorer in sentences: each action and what the brokers did in response."""

from highwater.explore.machine_world import MachineWorld
from highwater.explore.state import CLIENT
from highwater.plans.actions import Deliver, Path, words
from highwater.rig.commits import AnyCommit, NodeCreated, NodeWritten, SessionEnded
from reference.coordination import paths
from reference.coordination.api import Data
from reference.effects import AnyEffect, Note, Send
from reference.errors import ErrorCode
from reference.events import AnyEvent, Received
from reference.messages import EpochEnd, EpochEndReply, Fetch, FetchReply, LeaderAndIsr, PartitionState, ProduceReply
from reference.sealed import in_the_clear


def tell(model: MachineWorld, path: Path) -> tuple[str, ...]:
    """Describe a schedule of the explorer: one sentence for each action. Raises model.Impossible."""
    state = model.initial()
    sentences = []
    for action in path:
        listener = _Listener()
        state = model.after(state, action, listener)
        head = words(action) + (listener.detail if isinstance(action, Deliver) else "")
        sentences.append(f"{head}: {'; '.join(listener.said)}." if listener.said else f"{head}.")
    return tuple(sentences)


class _Listener:
    # Collects the clauses for one action.

    def __init__(self) -> None:
        self.said: list[str] = []
        self.detail = ""  # content of the message that arrived

    def event(self, index: int, life: int, event: AnyEvent) -> None:
        if isinstance(event, Received) and not self.said and not self.detail:
            self.detail = _content_in_words(event)

    def effect(self, index: int, life: int, effect: AnyEffect) -> None:
        """Tell a note or a message that the reader should know."""
        node = f"b{index + 1}"
        if isinstance(effect, Note):
            self._say(_note_in_words(node, effect))
        elif isinstance(effect, Send):
            self._say(_sending_in_words(node, effect))

    def committed(self, index: int, life: int, commits: tuple[AnyCommit, ...]) -> None:
        for commit in commits:
            if isinstance(commit, NodeCreated | NodeWritten):
                self._say(_write_in_words(commit))

    def administered(self, commits: tuple[AnyCommit, ...]) -> None:
        """Add nothing: the sentence of the action "move" says it."""

    def session_over(self, ended: SessionEnded, deleted: tuple[str, ...]) -> None:
        if paths.CONTROLLER in deleted:
            self._say("nobody is controller")

    def started(self, index: int, life: int) -> None:
        """Add nothing: the sentence of the action "broker starts" says it."""

    def stopped(self, index: int, life: int, why: str) -> None:
        if why != "crash":
            self._say(f"b{index + 1} stops ({why})")

    def asserted(self, index: int, life: int, words: str) -> None:
        self._say(f"an assertion fails at b{index + 1}: {words}")

    def _say(self, sentence: str) -> None:
        if sentence and (not self.said or self.said[-1] != sentence):
            self.said.append(sentence)


def _content_in_words(event: Received) -> str:
    """What a message says, in words; "" if that does not matter."""
    match event.message:
        case Fetch(offset=offset):
            return f" from offset {offset}"
        case FetchReply(error=ErrorCode.NONE, hw=hw):
            return f" with HW {hw}"
        case FetchReply(error=error) | EpochEndReply(error=error) if error is not ErrorCode.NONE:
            return f" with error {error.name}"
        case EpochEnd(leader_epoch=epoch):
            return f" about the end of epoch {epoch}"
        case EpochEndReply(leader_epoch=epoch, end_offset=end):
            return f": epoch {epoch} ends at {end}"
        case LeaderAndIsr(states=states, controller=controller):
            return f" of controller b{controller} ({'; '.join(_state_in_words(state) for state in states)})"
        case _:
            return ""


def _state_in_words(state: PartitionState) -> str:
    leader = "no leader" if state.leader is None else f"leader b{state.leader}"
    isr = ",".join(f"b{member.broker}" for member in state.isr)
    return f"{leader}, epoch {state.leader_epoch}, ISR {isr or 'empty'}"


def _sending_in_words(node: str, effect: Send) -> str:
    """What a broker sends, in words; "" if that does not matter."""
    match effect.message:
        case Fetch(offset=offset):
            return f"{node} fetches from {effect.to} at offset {offset}"
        case EpochEnd(leader_epoch=epoch):
            return f"{node} asks {effect.to} where epoch {epoch} ended"
        case ProduceReply(error=error) if effect.to == CLIENT:
            return "the client has its acknowledgement" if error is ErrorCode.NONE else f"the client is refused: {error.name}"
        case _:
            return ""


def _write_in_words(commit: NodeCreated | NodeWritten) -> str:
    """The state that a write to ZooKeeper leaves, in words; "" for a znode of no partition."""
    tp = paths.tp_of_state_path(commit.path)
    if tp is None:
        return ""
    return f"ZooKeeper has {_state_in_words(paths.decode_state(tp, (), Data(commit.data, 0, 0)))}"


def _note_in_words(node: str, note: Note) -> str:
    """What a broker notes, in words; "" if that does not matter."""
    isr = ",".join(f"b{broker}" for broker in note.isr or ())
    match note.kind:
        case "append":
            values = " ".join(value for batch in note.batches for value in in_the_clear(batch.values))
            return f"{node} appends {values} at offset {note.batches[0].base_offset}"
        case "truncate":
            return f"{node} truncates its log at offset {note.offset}, {note.detail}"
        case "hw" if note.detail == "leader":
            return f"{node} raises its high watermark to {note.hw}"
        case "hw":
            return f"{node} learns the high watermark {note.hw}"
        case "became-leader":
            return f"{node} becomes leader of epoch {note.leader_epoch} with LEO {note.leo} and HW {note.hw}, ISR {isr}"
        case "became-follower":
            return f"{node} follows b{note.leader} in epoch {note.leader_epoch}"
        case "resigned":
            return f"{node} neither leads nor follows"
        case "recovered":
            return f"{node} finds LEO {note.leo} and HW {note.hw} on its disk"
        case "controller-elected":
            return f"{node} becomes controller"
        case "controller-resigned":
            return f"{node} is no longer controller"
        case "registered":
            return f"{node} registers"
        case _:
            return ""
