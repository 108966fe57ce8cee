"""The controller's reads of /brokers/ids and /brokers/topics: the list of names, then the data of each (V3 §A, §B).

`broker_change` and `topics` take the answers. If a watch fires while a read is under way, one more read follows it.

    state            event                                   next       effects                   by
    any              a watch fires while idle, or no answer  children   list, with a watch        _read
    children         there are names                         data       read each                 broker_change.on_answer,
                                                                                                  topics.on_answer
    any              all is read, or this controller begins  idle       read again if a watch     resume
                                                                        fired
"""

from reference.controller.context import BrokerList, Controller, ControllerStep, Listing, ListingStep, TopicList
from reference.controller.outstanding import ask, is_outstanding
from reference.coordination import paths
from reference.coordination.api import GetChildren
from reference.machine import Turn


def _of(controller: Controller, pending: BrokerList | TopicList) -> tuple[Listing, str]:
    if isinstance(pending, BrokerList):
        return controller.brokers_listing, paths.BROKER_IDS
    return controller.topics_listing, paths.TOPICS


def on_watch(turn: Turn, controller: Controller, pending: BrokerList | TopicList) -> None:
    """The list of brokers or topics may have changed: read it again, once this controller is active."""
    listing, _ = _of(controller, pending)
    if controller.step is ControllerStep.ACTIVE and listing.step is ListingStep.IDLE:
        _read(turn, controller, pending)
    else:
        listing.again = True


def _read(turn: Turn, controller: Controller, pending: BrokerList | TopicList) -> None:
    listing, path = _of(controller, pending)
    listing.step, listing.again = ListingStep.CHILDREN, False
    if isinstance(pending, BrokerList):
        controller.adopted = ()  # this list is read after their registration
    ask(turn, controller, pending, (GetChildren(path, watch=True),))


def resume(turn: Turn, controller: Controller, pending: BrokerList | TopicList) -> None:
    """Read the list of brokers or topics again if a watch fired during the last read."""
    listing, _ = _of(controller, pending)
    listing.step = ListingStep.IDLE
    if listing.again:
        _read(turn, controller, pending)


def retry(turn: Turn, controller: Controller) -> None:
    """Read the list of brokers or topics again if ZooKeeper's answer was lost."""
    for pending in (BrokerList(), TopicList()):
        listing, _ = _of(controller, pending)
        if listing.step is not ListingStep.IDLE and not is_outstanding(controller, pending):
            _read(turn, controller, pending)
