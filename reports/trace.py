"""Export of a run in the trace event format, which Perfetto and chrome://tracing open.

Each broker, ZooKeeper and the clients are processes. A client call is a slice, as are the roles of replicas, the time in which a
broker was down and the windows of faults; other rows are instants, high watermarks and log ends are counters, and the messages of
the space-time diagram are flows. Times are microseconds of the run.
"""

from collections.abc import Iterator, Mapping

import msgspec

from checkers.causes.cause import cause_of
from checkers.engine.verdict import Verdict
from history.history import History
from reports.calls import calls_of
from reports.fault_windows import windows_of
from reports.nodes import nodes_of
from reports.replicas import tracks_of
from reports.rows import CLIENTS, event_line, is_control, partition_key, process_of
from reports.spacetime import ZOOKEEPER, diagram_of

FAULTS = "faults"
_OF_NODE = 0  # thread for rows of the whole broker

Event = dict[str, object]


def trace_json(history: History, verdict: Verdict) -> bytes:
    """The run as a JSON document of the trace event format."""
    manifest = history.manifest
    pids = {name: number for number, name in enumerate((FAULTS, CLIENTS, *manifest.brokers, ZOOKEEPER), start=1)}
    threads = {f"{p.topic}-{p.partition}": number for number, p in enumerate(history.partitions, start=1)}
    events = [
        *_name_events(pids, threads),
        *_call_events(history, pids),
        *_faults(history, pids),
        *_role_events(history, pids, threads),
        *_control_events(history, pids, threads),
        *_message_events(history, verdict, pids, threads),
    ]
    about = {"run": manifest.run_id, "protocol": manifest.protocol, "verdict": verdict.validity.name, "digest": manifest.digest}
    return msgspec.json.encode({"traceEvents": events, "displayTimeUnit": "ms", "otherData": about})


def _micros(time_ns: int) -> float:
    return time_ns / 1000


def _name_events(pids: Mapping[str, int], threads: Mapping[str, int]) -> Iterator[Event]:
    """The names of processes and threads."""
    for name, pid in pids.items():
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
        if name not in (FAULTS, CLIENTS):
            for thread, tid in (("broker", _OF_NODE), *threads.items()):
                yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}}


def _slice(name: str, pid: int, tid: int, start_ns: int, end_ns: int, **args: object) -> Event:
    times = {"ts": _micros(start_ns), "dur": _micros(max(end_ns - start_ns, 0))}
    return {"ph": "X", "name": name, "cat": "run", "pid": pid, "tid": tid, **times, "args": args}


def _call_events(history: History, pids: Mapping[str, int]) -> Iterator[Event]:
    """Client calls as slices."""
    for call in calls_of(history.attempts):
        end = history.manifest.end_ns if call.end_ns is None else call.end_ns
        args = {"row": call.index, "outcome": str(call.type), "error": call.error, "offset": call.offset, "node": call.node}
        where = "" if call.topic is None else f" {call.topic}-{call.partition}"
        yield _slice(f"{call.f}{where}", pids[CLIENTS], call.process, call.start_ns, end, **args)


def _faults(history: History, pids: Mapping[str, int]) -> Iterator[Event]:
    for number, window in enumerate(windows_of(history.events_frame, history.manifest.end_ns)):
        args = {"fault": window.id, "nodes": list(window.nodes), "acted": window.acted}
        yield _slice(window.kind, pids[FAULTS], number, window.start_ns, window.end_ns, **args)


def _role_events(history: History, pids: Mapping[str, int], threads: Mapping[str, int]) -> Iterator[Event]:
    """Downtime, controllers and roles as slices; LEO and HW as counters."""
    manifest = history.manifest
    for node in nodes_of(history.events, manifest.brokers, manifest.end_ns):
        for start, end in node.down:
            yield _slice("down", pids[node.node], _OF_NODE, start, end)
        for epoch, start, end in node.reigns:
            yield _slice("controller", pids[node.node], _OF_NODE, start, end, controller_epoch=epoch)
    for track in tracks_of(history.events, manifest.assignments, manifest.end_ns):
        for replica in track.replicas:
            pid = pids.get(replica.node)
            if pid is None or track.key not in threads:
                continue
            for span in replica.roles:
                if span.role in ("leader", "follower"):
                    words = f"{span.role}, epoch {'unknown' if span.leader_epoch is None else span.leader_epoch}"
                    yield _slice(words, pid, threads[track.key], span.start_ns, span.end_ns)
            for name, points in (("LEO", replica.leo), ("HW", replica.hw)):
                for time_ns, value in points:
                    counter = {"ph": "C", "name": f"{name} {track.key}", "pid": pid, "tid": threads[track.key]}
                    yield {**counter, "ts": _micros(time_ns), "args": {name: value or 0}}


def _control_events(history: History, pids: Mapping[str, int], threads: Mapping[str, int]) -> Iterator[Event]:
    """Control events as instants."""
    for event in history.events:
        if is_control(event):
            line = event_line(event)
            pid = pids.get(line.who, pids[ZOOKEEPER])
            tid = threads.get(partition_key(event), _OF_NODE)
            instant = {"ph": "i", "s": "t", "name": str(event.kind), "cat": "row", "pid": pid, "tid": tid}
            yield {**instant, "ts": _micros(event.time_ns), "args": {"row": event.index, "words": line.words}}


def _message_events(history: History, verdict: Verdict, pids: Mapping[str, int], threads: Mapping[str, int]) -> Iterator[Event]:
    """The messages around the cause, from the row that sent each to the row that it led to."""
    diagram = diagram_of(history, cause_of(history, verdict))
    if diagram is None:
        return
    spots = {spot.line.index: spot.line for spot in diagram.spots}
    for number, arrow in enumerate(diagram.arrows):
        for phase, row, process in (("s", arrow.start, arrow.source), ("f", arrow.end, arrow.target)):
            line = spots[row]
            client = process_of(process) == CLIENTS
            pid = pids[CLIENTS] if client else pids.get(process, pids[ZOOKEEPER])
            own = line.who.removeprefix("client ")
            tid = int(own) if client and own.isdigit() else threads.get(line.where, _OF_NODE)
            place = {"pid": pid, "tid": tid, "ts": _micros(line.time_ns)}
            end = {"bp": "e"} if phase == "f" else {}
            yield {"ph": phase, "id": number, "name": arrow.words, "cat": arrow.kind, **place, **end}
