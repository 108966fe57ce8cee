"""Laying down the office: the reign's state goes, nothing more is sent."""

from reference.controller import channel, proposals, standings
from reference.controller.context import Agent, Controller, DirEvents, Listing
from reference.effects import CancelTimer, Note
from reference.machine import Turn


def resign(turn: Turn, controller: Controller) -> None:
    """Somebody else is controller, or nobody can tell (R-071 for controllers)."""
    if controller.step in ("active", "listing", "reading", "states"):
        epoch = controller.epoch if turn.config.variant.controller_epoch else None
        turn.note(Note(kind="controller-resigned", controller_epoch=epoch))
    channel.close(turn, controller)
    proposals.disown(turn, controller)
    standings.forget(turn, controller)
    controller.step = "off"
    controller.request = 0
    controller.live = ()
    controller.topics = ()
    controller.assignments = {}
    controller.topic_ids = {}
    controller.states = {}
    controller.changes = {}
    controller.brokers_listing = Listing()
    controller.topics_listing = Listing()
    controller.admin = {}
    controller.agent = Agent()
    turn.effects.append(CancelTimer("reassign"))
    controller.dir_events = DirEvents()
    turn.effects.append(CancelTimer("controller"))
