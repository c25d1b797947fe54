"""What surrounds every RPC."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import grpc
import pytest
import structlog

from csi import errors
from csi._pb import csi_pb2, csi_pb2_grpc

from .inprocess import CANARY, Gate, delete, mount, serving
from .messages import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from csi.deadline import Deadline

    from .inprocess import Driver


@pytest.fixture
def driver() -> Iterator[Driver]:
    with serving() as driver:
        yield driver


def raising(error: Exception) -> Callable[[Deadline], None]:
    def work(_deadline: Deadline) -> None:
        raise error

    return work


def until_over(deadline: Deadline) -> None:
    """Wait as the services do: for something that does not come, until the deadline says enough."""
    over = threading.Event()
    deadline.listen(over.set)
    over.wait(deadline.remaining())
    deadline.check("what never comes")


def test_a_busy_volume_is_aborted_at_once(driver: Driver) -> None:
    """A second call for a volume answers ABORTED while the first one runs, and works after it."""
    driver.behaviour.work = gate = Gate()
    first = driver.controller.DeleteVolume.future(delete("v"), timeout=LIMIT)
    gate.await_all()
    refused = driver.controller.DeleteVolume.future(delete("v"), timeout=LIMIT).code()
    gate.open()
    first.result()
    assert refused is grpc.StatusCode.ABORTED
    driver.controller.DeleteVolume(delete("v"), timeout=LIMIT)


def test_a_name_and_its_id_are_one_volume(driver: Driver) -> None:
    """While CreateVolume runs for a name, a delete of the id that the name becomes answers ABORTED."""
    driver.behaviour.work = gate = Gate()
    create = csi_pb2.CreateVolumeRequest(name="NAME", volume_capabilities=[mount()])
    first = driver.controller.CreateVolume.future(create, timeout=LIMIT)
    gate.await_all()
    refused = driver.controller.DeleteVolume.future(delete("name"), timeout=LIMIT).code()
    gate.open()
    first.result()
    assert refused is grpc.StatusCode.ABORTED


def test_other_volumes_are_not_held_up(driver: Driver) -> None:
    """Two volumes are worked on at the same time."""
    driver.behaviour.work = gate = Gate(2)
    calls = [driver.controller.DeleteVolume.future(delete(name), timeout=LIMIT) for name in ("a", "b")]
    gate.await_all()
    gate.open()
    for call in calls:
        call.result()


def test_probes_are_answered_while_every_place_is_taken() -> None:
    """With all places taken a working call is UNAVAILABLE at once; probe, info and capabilities answer."""
    with serving(places=240) as driver:
        driver.behaviour.work = gate = Gate(240)
        stuck = [
            driver.controller.DeleteVolume.future(delete(f"v{number}"), timeout=LIMIT)
            for number in range(256)
        ]
        gate.await_all()
        assert driver.identity.Probe(csi_pb2.ProbeRequest(), timeout=LIMIT).ready.value
        assert driver.node.NodeGetInfo(csi_pb2.NodeGetInfoRequest(), timeout=LIMIT).node_id == "n1"
        refused = driver.controller.DeleteVolume.future(delete("one-more"), timeout=LIMIT).code()
        gate.open()
        codes = [call.code() for call in stuck]
    assert refused is grpc.StatusCode.UNAVAILABLE
    assert codes.count(grpc.StatusCode.OK) == 240
    assert codes.count(grpc.StatusCode.UNAVAILABLE) == 16


def test_the_halves_have_places_of_their_own() -> None:
    """A controller with all places taken leaves the node's calls alone."""
    with serving(places=1) as driver:
        driver.behaviour.work = gate = Gate(2)
        stuck = driver.controller.DeleteVolume.future(delete("v"), timeout=LIMIT)
        unstage = csi_pb2.NodeUnstageVolumeRequest(volume_id="v", staging_target_path="/s")
        served = driver.node.NodeUnstageVolume.future(unstage, timeout=LIMIT)
        gate.await_all()
        gate.open()
        assert (stuck.code(), served.code()) == (grpc.StatusCode.OK, grpc.StatusCode.OK)


def test_the_wait_ends_before_the_caller_gives_up(driver: Driver) -> None:
    """A caller with a deadline gets the sentence of what was waited for, not its own time-out."""
    driver.behaviour.work = until_over
    over = driver.controller.DeleteVolume.future(delete("v"), timeout=1.0)
    assert "what never comes" in over.details()


def test_a_caller_without_a_deadline_waits_max_wait() -> None:
    """A call without deadline ends after --max-wait."""
    with serving(max_wait=0.01) as driver:
        driver.behaviour.work = until_over
        over = driver.controller.DeleteVolume.future(delete("v"))
        assert over.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_cancelled_call_ends_its_wait_and_frees_its_volume(driver: Driver) -> None:
    """When the caller goes away the work is told, and the volume can be worked on again."""
    started, ended = threading.Event(), threading.Event()

    def work(deadline: Deadline) -> None:
        started.set()
        try:
            until_over(deadline)
        except errors.Cancelled:
            ended.set()
            raise

    driver.behaviour.work = work
    call = driver.controller.DeleteVolume.future(delete("v"))
    assert started.wait(LIMIT)
    call.cancel()
    assert ended.wait(LIMIT)
    driver.behaviour.work = lambda _deadline: None
    again = (driver.controller.DeleteVolume.future(delete("v"), timeout=LIMIT).code() for _ in range(100))
    assert grpc.StatusCode.OK in again  # the volume is given back a moment after the work has ended


def test_a_stop_ends_waits_with_unavailable(driver: Driver) -> None:
    """When the driver stops, a waiting call is UNAVAILABLE: come again, to the next driver."""
    started = threading.Event()

    def work(deadline: Deadline) -> None:
        started.set()
        until_over(deadline)

    driver.behaviour.work = work
    call = driver.controller.DeleteVolume.future(delete("v"), timeout=LIMIT)
    assert started.wait(LIMIT)
    assert driver.server.drain(LIMIT) == 0
    assert call.code() is grpc.StatusCode.UNAVAILABLE
    assert "stopping" in call.details()


def test_a_fault_is_internal_and_logged_with_its_traceback(driver: Driver) -> None:
    """What nobody foresaw is INTERNAL for the caller and a traceback in the log, without secrets."""
    driver.behaviour.work = raising(ZeroDivisionError(f"division by {CANARY}"))
    request = csi_pb2.DeleteVolumeRequest(volume_id="v", secrets={"key": CANARY})
    with structlog.testing.capture_logs() as lines:
        fault = driver.controller.DeleteVolume.future(request, timeout=LIMIT)
        fault.code()
    assert fault.code() is grpc.StatusCode.INTERNAL
    assert "ZeroDivisionError" in fault.details()
    assert any("Traceback" in str(line.get("exception")) for line in lines)
    assert CANARY not in str(lines)


def test_an_error_that_quotes_a_secret_is_masked(driver: Driver) -> None:
    """An error's text that holds a secret of the request reaches neither log nor caller with it."""
    driver.behaviour.work = raising(errors.InUse(f"mount: wrong {CANARY}"))
    request = csi_pb2.DeleteVolumeRequest(volume_id="v", secrets={"key": CANARY})
    with structlog.testing.capture_logs() as lines:
        refused = driver.controller.DeleteVolume.future(request, timeout=LIMIT)
        refused.code()
    assert CANARY not in f"{lines} {refused.details()}"
    assert "mount: wrong ***" in refused.details()


def test_a_long_error_still_reaches_the_caller(driver: Driver) -> None:
    """An error longer than gRPC's metadata keeps its code; its text is cut."""
    driver.behaviour.work = raising(errors.InUse("🐟" * 100_000))
    refused = driver.controller.DeleteVolume.future(delete("v"), timeout=LIMIT)
    assert refused.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "🐟" in refused.details()


def test_a_call_is_one_log_line(driver: Driver) -> None:
    """A call is logged once: method, code, seconds and its fields."""
    with structlog.testing.capture_logs() as lines:
        driver.controller.DeleteVolume(delete("v"), timeout=LIMIT)
    (line,) = lines
    assert line["method"] == "/csi.v1.Controller/DeleteVolume"
    assert line["code"] == "OK"
    assert line["request"] == {"volume_id": "v"}
    assert line["seconds"] >= 0


def test_a_call_is_counted_as_the_sidecars_do(driver: Driver) -> None:
    """The metric has the labels and the spelling of codes that dashboards of the sidecars know."""
    driver.behaviour.work = raising(errors.InUse("no"))
    driver.controller.DeleteVolume.future(delete("v"), timeout=LIMIT).code()
    labels = {
        "driver_name": "driver.harvesterhci.io",
        "method_name": "/csi.v1.Controller/DeleteVolume",
        "grpc_status_code": "FailedPrecondition",
    }
    assert driver.registry.get_sample_value("csi_plugin_operations_seconds_count", labels) == 1


@pytest.mark.parametrize("authority", ["localhost", "x", "%2Fcsi%2Fcsi.sock"])
def test_any_authority_is_accepted(driver: Driver, authority: str) -> None:
    """Go clients send the socket's path as authority (grpc #34305); it means nothing here."""
    with grpc.insecure_channel(driver.address, options=[("grpc.default_authority", authority)]) as channel:
        stub = csi_pb2_grpc.IdentityStub(channel)
        assert stub.Probe(csi_pb2.ProbeRequest(), timeout=LIMIT).ready.value
