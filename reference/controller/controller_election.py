"""Controller election: a broker becomes controller, and resigns (V3 §D steps 1 and 2; the article's controller epoch).

`safe` creates /controller and raises /controller_epoch in one multi, so that two controllers never share an epoch. The article
does one after the other. V3 has no controller epoch.

    state                       event                               next           effects                by
    any but removals, active    registers, retries, or hears of a   looking        read /controller and   look
                                change of /controller                              its epoch
    any but removals, active    no answer                           looking        retry later            controller.on_answer
    looking                     another broker is controller        watching                              on_looked
    looking                     none is                             claiming       create /controller     _claim
    looking, claiming           /controller is its own, and no      raising-epoch  write                  _raise_epoch
                                multi raised its epoch                             /controller_epoch
    looking, claiming,          the epoch is its own                listing        list brokers, topics   failover.begin
      raising-epoch                                                                and requests
    listing                     they are listed                     reading        read registrations     failover.on_listed
                                                                                   and assignments
    reading                     they are read                       states         read partition states  failover.on_read
    states                      they are read                       removals       read requests to       failover.on_states
                                                                                   delete
    removals                    no request to delete is being read  active         commands to all,       failover._take_office
                                                                                   elections
    any                         another controller is elected, or   off            forget all but epochs  resign
                                the session ends
"""

from reference.config import Variant, asks_controller, sends_heartbeats
from reference.controller import channel, failover, proposals, standings
from reference.controller.context import Controller, ControllerStep, OwnElection, in_office
from reference.controller.outstanding import ask
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, AnyOp, Create, Created, Data, Exists, GetData, SetData, Written
from reference.effects import CancelTimer, Note
from reference.machine import Turn
from reference.timers import Timer, name_of
from reference.types import BrokerId, ControllerEpoch, ZkVersion

_OUTLIVES_THE_TERM = ("epoch", "epoch_version", "elected", "locked")


def look(turn: Turn, controller: Controller) -> None:
    """V3 §D: read /controller, with an exists watch (R-040, R-146), and /controller_epoch.

    Who is in office stays so until the answer. `Exists` answers with the data, too.
    """
    ask(turn, controller, OwnElection(), (Exists(paths.CONTROLLER, watch=True), GetData(paths.CONTROLLER_EPOCH)))
    if not in_office(controller):
        controller.step = ControllerStep.LOOKING


def on_looked(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...], session: int) -> None:
    """/controller was read: another broker is controller (watch), this one is (go on), or none is (claim it)."""
    owner, epoch = answers
    if isinstance(owner, Data):
        _learn_controller(turn, controller, paths.decode_controller(owner.data))
    ours = isinstance(owner, Data) and owner.owner == session
    if in_office(controller):
        if not ours:
            resign(turn, controller)
            look(turn, controller)
        return
    last_epoch = int(epoch.data) if isinstance(epoch, Data) else 0
    if not turn.config.variant.controller_epoch_persist:
        last_epoch = controller.epoch  # B-46: each broker counts its own terms
    version = epoch.version if isinstance(epoch, Data) else -1
    if ours:
        _resume_claim(turn, controller, last_epoch, version)
    elif isinstance(owner, Data):
        controller.step = ControllerStep.WATCHING
    else:
        _claim(turn, controller, last_epoch, version)


def _learn_controller(turn: Turn, controller: Controller, broker: BrokerId) -> None:
    """Tell this broker who is controller: heartbeats and ISR changes go there (R-185, R-192); an older protocol: none (R-205)."""
    if sends_heartbeats(turn.config) or asks_controller(turn.config):
        controller.elected = broker


def _resume_claim(turn: Turn, controller: Controller, last_epoch: int, version: int) -> None:
    """An earlier claim was done, but its answer was lost. Without the multi, /controller_epoch may not be raised yet."""
    variant = turn.config.variant
    controller.epoch = ControllerEpoch(last_epoch if variant.controller_epoch else 0)
    controller.epoch_version = ZkVersion(version)
    if _raises(variant) and not variant.zk_guard:
        _raise_epoch(turn, controller, last_epoch, version)
    else:
        _won(turn, controller)


def _claim(turn: Turn, controller: Controller, last_epoch: int, version: int) -> None:
    """V3 §D step 1: create /controller; it is ephemeral, and the first to create it is the controller (R-001, C-01)."""
    variant = turn.config.variant
    create = Create(paths.CONTROLLER, paths.controller_payload(turn.config.broker), ephemeral=True)
    controller.step = ControllerStep.CLAIMING
    controller.epoch = ControllerEpoch(last_epoch + 1 if variant.controller_epoch else 0)
    controller.epoch_version = ZkVersion(version)
    if _raises(variant) and variant.zk_guard:
        ask(turn, controller, OwnElection(), (create, _epoch_op(last_epoch, version)), atomic=True)
    else:
        ask(turn, controller, OwnElection(), (create,))


def _raises(variant: Variant) -> bool:
    return variant.controller_epoch and variant.controller_epoch_persist


def _epoch_op(last_epoch: int, version: int) -> AnyOp:
    """R-154: /controller_epoch holds a bare integer."""
    data = str(last_epoch + 1).encode()
    return Create(paths.CONTROLLER_EPOCH, data) if version < 0 else SetData(paths.CONTROLLER_EPOCH, data, version)


def on_claimed(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """V3 §D step 2: the creation of /controller was answered; if another broker was first, read it again and watch it."""
    variant = turn.config.variant
    if not isinstance(answers[0], Created):
        look(turn, controller)
    elif _raises(variant) and not variant.zk_guard:
        _raise_epoch(turn, controller, controller.epoch - 1, controller.epoch_version)
    elif _raises(variant):
        on_epoch_raised(turn, controller, answers[1])
    else:
        _won(turn, controller)


def _raise_epoch(turn: Turn, controller: Controller, last_epoch: int, version: int) -> None:
    controller.step = ControllerStep.RAISING_EPOCH
    controller.epoch = ControllerEpoch(last_epoch + 1)
    ask(turn, controller, OwnElection(), (_epoch_op(last_epoch, version),))


def on_epoch_raised(turn: Turn, controller: Controller, answer: AnyAnswer) -> None:
    """/controller_epoch was raised: in one multi with /controller, or as the article's second step."""
    match answer:
        case Written(version=version):
            controller.epoch_version = ZkVersion(version)
            _won(turn, controller)
        case Created():
            controller.epoch_version = ZkVersion(0)
            _won(turn, controller)
        case _:
            look(turn, controller)


def _won(turn: Turn, controller: Controller) -> None:
    turn.note(Note(kind="controller-elected", controller_epoch=_noted_epoch(turn, controller)))
    _learn_controller(turn, controller, turn.config.broker)
    failover.begin(turn, controller)


def _noted_epoch(turn: Turn, controller: Controller) -> ControllerEpoch | None:
    return controller.epoch if turn.config.variant.controller_epoch else None


def resign(turn: Turn, controller: Controller) -> None:
    """Stop being controller: another one is, or the session is over (R-071 for controllers). Send nothing more."""
    if controller.step in (ControllerStep.LISTING, ControllerStep.READING, ControllerStep.STATES) or in_office(controller):
        turn.note(Note(kind="controller-resigned", controller_epoch=_noted_epoch(turn, controller)))
    channel.open_channels(turn, controller, live=())
    proposals.disown(turn, controller)
    standings.forget(turn, controller)
    fresh = Controller()
    for field in Controller.__struct_fields__:
        if field not in _OUTLIVES_THE_TERM:
            setattr(controller, field, getattr(fresh, field))
    turn.effects += [CancelTimer(name_of(Timer.REASSIGN)), CancelTimer(name_of(Timer.CONTROLLER_RETRY))]
