"""Judges the ZooKeeper in memory by ZooKeeper's rules: it is part of the protocol under test, and all others believe it.

After each request the answers are compared with the tree before and after it, for the znodes that the request names. A broken
rule is recorded as a failed assertion of ZooKeeper (`checkers.validity.assertions`), once for each rule.

* Each operation has one answer. A multi is performed as a whole, or not at all: then one operation has its error, all others
  `RolledBack`, and nothing has changed.
* A write took effect, on the version that it names; a refused one has its reason in the tree; a read shows the tree.
* A change tells the sessions that watched the znode, or the children of its parent.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.rig.cuts import ZOOKEEPER
from history.event import EventKind
from history.recorder import Recorder
from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    BadVersion,
    Check,
    Checked,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Deleted,
    Exists,
    GetChildren,
    GetData,
    NodeExists,
    NoNode,
    NotEmpty,
    Refusal,
    RolledBack,
    SessionExpired,
    SetData,
    Unknown,
    Written,
)
from reference.coordination.memory import Fired, MemoryZooKeeper

_READS = (GetData, Exists, GetChildren)


class _Znode(NamedTuple):
    """A znode at one moment."""

    data: bytes
    version: int
    czxid: int
    mzxid: int
    pzxid: int
    owner: int
    sequence: int
    children: tuple[str, ...]


_Seen = dict[str, _Znode | None]  # by path; None where there is none


def submit(
    recorder: Recorder, tree: MemoryZooKeeper, session: int, ops: tuple[AnyOp, ...], *, atomic: bool = False
) -> tuple[tuple[AnyAnswer, ...], Fired]:
    """Perform a request of a session, and record what is wrong with its answers. Answers that fit no operation become Unknown."""
    alive = str(session) in tree.sessions
    before = _nodes_of(tree, ops)
    zxid = tree.zxid
    owed = [(op, _watchers(tree, op)) for op in ops]
    answers, fired = tree.submit(session, ops, atomic=atomic)
    if len(answers) != len(ops):
        _record_complaint(recorder, f"{len(answers)} answers to {len(ops)} operations")
        return (Unknown(),) * len(ops), fired
    if not alive:
        if any(not isinstance(answer, SessionExpired) for answer in answers) or tree.zxid != zxid:
            _record_complaint(recorder, "a session that had ended was served")
        return answers, fired
    after = _nodes_of(tree, ops)
    if atomic and any(isinstance(answer, Refusal | RolledBack) for answer in answers):
        at_fault = sum(isinstance(answer, Refusal) for answer in answers)
        if at_fault != 1 or at_fault + sum(isinstance(answer, RolledBack) for answer in answers) != len(answers):
            _record_complaint(recorder, "a multi was performed in part")
        if (after, tree.zxid) != (before, zxid) or fired:
            _record_complaint(recorder, "a multi that was refused changed something")
        return answers, fired
    for words in _complaints(ops, answers, before, after):
        _record_complaint(recorder, words)
    notified = {(to, path) for to, path, _ in fired}
    for (op, watchers), answer in zip(owed, answers, strict=True):
        if isinstance(answer, Created | Written | Deleted) and not watchers <= notified:
            _record_complaint(recorder, f"a session that watches {op.path} or its parent was not told of a change")
    return answers, fired


def _watchers(tree: MemoryZooKeeper, op: AnyOp) -> set[tuple[int, str]]:
    """The sessions that a change by this operation tells, each with the znode that it watches."""
    if isinstance(op, (*_READS, Check)):
        return set()
    watchers = set() if isinstance(op, Create) and op.sequential else {(to, op.path) for to in tree.data_watches.get(op.path, ())}
    if isinstance(op, Create | Delete):
        watchers |= {(to, _parent(op.path)) for to in tree.child_watches.get(_parent(op.path), ())}
    return watchers


def _nodes_of(tree: MemoryZooKeeper, ops: tuple[AnyOp, ...]) -> _Seen:
    """The nodes that these operations may change, as they are now."""
    nodes: _Seen = {}
    for path in {path: None for op in ops for path in (op.path, _parent(op.path))}:
        znode = tree.nodes.get(path)
        if znode is None:
            nodes[path] = None
        else:
            numbers = (znode.version, znode.czxid, znode.mzxid, znode.pzxid, znode.owner, znode.sequence)
            nodes[path] = _Znode(znode.data, *numbers, tuple(znode.children))
    return nodes


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _complaints(ops: tuple[AnyOp, ...], answers: tuple[AnyAnswer, ...], before: _Seen, after: _Seen) -> Iterator[str]:
    """What is wrong with the answers to operations on znodes that no other operation of the request touches."""
    paths = [op.path for op in ops]
    writes = {op.path for op in ops if not isinstance(op, (*_READS, Check))}
    parents = {_parent(path) for path in writes}
    for op, answer in zip(ops, answers, strict=True):
        if paths.count(op.path) > 1 or op.path in parents or _parent(op.path) in writes:
            continue
        if isinstance(op, Create) and op.sequential:
            continue  # nobody knows its name before
        old, new = before[op.path], after[op.path]
        broken = _broken_rule(op, answer, old, new) or _missing_reason(op, answer, old, before[_parent(op.path)])
        if broken is not None:
            yield f"{type(op).__name__} of {op.path} was answered with {type(answer).__name__}, though {broken}"


def _broken_rule(op: AnyOp, answer: AnyAnswer, old: _Znode | None, new: _Znode | None) -> str | None:
    """Which rule a positive answer breaks, given the znode before and after."""
    match op, answer:
        case Create(), Created() if old is not None or new is None or (new.data, new.version) != (op.data, 0):
            return "it was there before, or is not there with its data"
        case SetData(), Written() if old is None or new is None or op.version not in (-1, old.version):
            return "it was not there in the version that was asked for"
        case SetData(), Written() if old and new and (new.data, new.version) != (op.data, old.version + 1):
            return "it does not hold the data in the next version"
        case SetData(), Written(version=version) if new and version != new.version:
            return "it has another version"
        case Delete(), Deleted() if old is None or new is not None or op.version not in (-1, old.version):
            return "it was not there in the version that was asked for, or is there"
        case Check(), Checked() if old is None or op.version not in (-1, old.version):
            return "it has another version"
        case GetData() | Exists(), Data(data=data, version=version, czxid=czxid, owner=owner):
            before = old and (old.data, old.version, old.czxid, old.owner)
            return None if before == (data, version, czxid, owner) else "it holds something else"
        case GetChildren(), Children(names=names) if old is None or names != old.children:
            return "it has other children"
        case _:
            return "it changed" if isinstance(answer, Refusal) and old != new else None


def _missing_reason(op: AnyOp, answer: AnyAnswer, old: _Znode | None, parent: _Znode | None) -> str | None:
    """Why a refusal has no reason, given the znode and its parent before."""
    match answer:
        case BadVersion() if old is None or getattr(op, "version", -1) in (-1, old.version):
            return "it had the version that was asked for"
        case NodeExists() if old is None:
            return "it was not there"
        case NotEmpty() if old is None or not old.children:
            return "it had no children"
        case NoNode() if isinstance(op, Create) and parent is not None and not parent.owner:
            return "its parent was there"
        case NoNode() if not isinstance(op, Create) and old is not None:
            return "it was there"
        case _:
            return None


def _record_complaint(recorder: Recorder, words: str) -> None:
    detail = f"ZooKeeper's rules: {words}"
    if all(row.detail != detail for row in recorder.events if row.kind is EventKind.ASSERTION):
        recorder.event(EventKind.ASSERTION, node=ZOOKEEPER, detail=detail)
