"""What brokers of a run as processes write to each other: the bytes that pass the proxies between them, and how they are read."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from highwater.backends.real.processes import site
from highwater.backends.real.processes.backend import ProcessBackend
from highwater.backends.real.processes.conversation import of_kafka
from highwater.backends.real.processes.proxy import Divide
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance
from reference.messages import CONTROL_REQUESTS, Message
from server.wire.codec import APIS, read_reply, read_request
from server.wire.framing import read_correlation, read_request_header, response_body_at

Heard = tuple[int, bytes, Message]  # version, the body behind the header, what the receiver reads in it
_CONTROL = {int(api) for request, api in APIS.items() if request in CONTROL_REQUESTS}
_LENGTH_BYTES = 4  # of a frame, before its header


def overheard(plan: Plan) -> tuple[Heard, ...]:
    """All requests of controllers and to them, and their answers, of a run of the plan as processes."""
    backend = ProcessBackend()
    refusal = backend.refuse(plan)
    if refusal is not None:
        pytest.skip(refusal)
    requests_heard: list[Heard] = []

    def conversation() -> tuple[Divide, Divide]:
        asks, answers = of_kafka()
        open_requests: dict[int, tuple[Any, int]] = {}  # a response has the version of its request, and does not name it

        def hear_request(data: bytes) -> Iterator[tuple[str, bytes]]:
            for kind, piece in asks(data):
                frame = piece[_LENGTH_BYTES:]
                header, at = read_request_header(frame)
                if header.api_key in _CONTROL:
                    request = read_request(header, frame, at, lambda _: None)
                    open_requests[header.correlation] = (request, header.api_version)
                    requests_heard.append((header.api_version, frame[at:], request))
                yield kind, piece

        def hear_answer(data: bytes) -> Iterator[tuple[str, bytes]]:
            for kind, piece in answers(data):
                frame = piece[_LENGTH_BYTES:]
                request, version = open_requests.pop(read_correlation(frame), (None, 0))
                if request is not None:
                    body = frame[response_body_at(frame, APIS[type(request)], version) :]
                    requests_heard.append((version, body, read_reply(request, version, frame)))
                yield kind, piece

        return hear_request, hear_answer

    with patch.object(site, "of_kafka", conversation):
        run = backend.perform(plan, Provenance(run_id="test", plan_digest=""))
    assert run.failure is None
    return tuple(requests_heard)
