"""Admission hooks: what they are asked, and what their answers do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from kube.client import MergePatch
from kube.errors import Forbidden, NotFound, Refused, Unreachable
from kube.objects import dig, mapping, name_of, text
from kube.resources import CLAIMS, CONFIG_MAPS
from sim.apiserver.admission import Allowed, Denied
from sim.apiserver.server import ApiServer
from tests.contract.shapes import claim, config_map

from .raw import send

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.rest import RestClient
    from sim.apiserver.admission import AdmissionRequest, Verdict

    from .conftest import Connect

HOME = "default"


@dataclass
class Hook:
    """Keeps what it was asked, and answers what it is told to."""

    verdict: Verdict = field(default_factory=Allowed)
    asked: list[AdmissionRequest] = field(default_factory=list)
    client: RestClient | None = None
    broken: bool = False

    def review(self, request: AdmissionRequest) -> Verdict:
        self.asked.append(request)
        if self.broken:
            raise ZeroDivisionError("the hook broke")
        if self.client is not None:
            self.client.list(CLAIMS)
        return self.verdict


@pytest.fixture
def hook() -> Hook:
    """Return the hook of the test's server."""
    return Hook()


@pytest.fixture
def server(hook: Hook) -> Iterator[ApiServer]:
    """Run a server with the hook."""
    with ApiServer(hooks=[hook]) as running:
        yield running


def test_a_hook_is_asked_about_each_write_with_both_states(client: RestClient, hook: Hook) -> None:
    """A create brings the new object, a deletion the old, an update both, with their kinds."""
    made = client.create(CLAIMS, claim("a"), HOME)
    bound = client.patch(CLAIMS, "a", MergePatch({"status": {"phase": "Bound"}}), HOME, "status")
    client.delete(CLAIMS, "a", HOME)
    create, update, delete = hook.asked
    assert [each.operation for each in hook.asked] == ["CREATE", "UPDATE", "DELETE"]
    assert {(each.resource, each.namespace, each.name, each.user) for each in hook.asked} == {
        (CLAIMS, HOME, "a", "admin")
    }
    assert [each.subresource for each in hook.asked] == ["", "status", ""]
    assert create.old_object is None
    assert text(create.object, "kind") == "PersistentVolumeClaim"
    assert mapping(create.object, "spec") == made["spec"]
    assert update.old_object == made
    assert text(update.object, "status", "phase") == "Bound"
    assert (delete.object, delete.old_object) == (None, bound)


def test_a_refusal_arrives_in_the_frame_of_the_server(client: RestClient, hook: Hook) -> None:
    """Code, reason and words are the webhook's; nothing is written."""
    hook.verdict = Denied("validator.example.test", "not today", 422, "Invalid")
    with pytest.raises(Refused) as caught:
        client.create(CONFIG_MAPS, config_map("a"), HOME)
    refused = caught.value
    assert (refused.webhook, refused.why) == ("validator.example.test", "not today")
    assert (refused.code, refused.reason) == (422, "Invalid")
    hook.verdict = Allowed()
    with pytest.raises(NotFound):
        client.get(CONFIG_MAPS, "a", HOME)


def test_a_quota_refuses_in_its_own_words(client: RestClient, hook: Hook) -> None:
    """A refusal without a webhook's name gets no frame."""
    hook.verdict = Denied("", 'configmaps "a" is forbidden: exceeded quota: q')
    with pytest.raises(Forbidden) as caught:
        client.create(CONFIG_MAPS, config_map("a"), HOME)
    assert caught.value.message == 'configmaps "a" is forbidden: exceeded quota: q'


def test_an_update_and_a_deletion_can_be_refused(client: RestClient, hook: Hook) -> None:
    """The object stays as it was."""
    made = client.create(CONFIG_MAPS, config_map("a"), HOME)
    hook.verdict = Denied("v", "no")
    with pytest.raises(Refused):
        client.patch(CONFIG_MAPS, "a", MergePatch({"data": {"x": "1"}}), HOME)
    with pytest.raises(Refused):
        client.delete(CONFIG_MAPS, "a", HOME)
    assert client.get(CONFIG_MAPS, "a", HOME) == made


def test_a_hook_can_change_what_is_written(client: RestClient, hook: Hook) -> None:
    """What it answers with is stored in place of what was sent, and the client sees it."""
    hook.verdict = Allowed(config_map("a", {"x": "changed"}, namespace=HOME, uid="u"))
    made = client.create(CONFIG_MAPS, config_map("a", {"x": "sent"}), HOME)
    assert dig(made, "data", "x") == "changed"
    assert client.get(CONFIG_MAPS, "a", HOME) == made


def test_a_hook_may_ask_the_server_itself(
    server: ApiServer, connect_to: Connect, client: RestClient, hook: Hook
) -> None:
    """No lock is held while it thinks."""
    hook.client = connect_to(server, server.admin_token)
    assert name_of(client.create(CONFIG_MAPS, config_map("a"), HOME)) == "a"


def test_a_patch_that_lost_a_race_is_judged_again(connect_to: Connect) -> None:
    """When somebody writes while a hook thinks, the patch is made and judged anew on what is then there."""
    seen: list[object] = []

    class Meddler:
        def review(self, request: AdmissionRequest) -> Verdict:
            seen.append(dig(request.object, "data"))
            if len(seen) == 2:
                other.patch(CONFIG_MAPS, "a", MergePatch({"data": {"y": "1"}}), HOME)
            return Allowed()

    with ApiServer(hooks=[Meddler()]) as meddled:
        client, other = (connect_to(meddled, meddled.admin_token) for _ in range(2))
        client.create(CONFIG_MAPS, config_map("a"), HOME)
        patched = client.patch(CONFIG_MAPS, "a", MergePatch({"data": {"x": "1"}}), HOME)
    assert patched["data"] == {"x": "1", "y": "1"}
    assert seen == [None, {"x": "1"}, {"y": "1"}, {"x": "1", "y": "1"}]


def test_a_hook_that_breaks_is_told_without_secrets(
    server: ApiServer, client: RestClient, hook: Hook, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client gets a 500, the log the trace, and nobody the token."""
    hook.broken = True
    with pytest.raises(Unreachable, match="Internal error occurred"):
        client.create(CONFIG_MAPS, config_map("a"), HOME)
    logged = capsys.readouterr().out
    assert "the hook broke" in logged
    assert server.admin_token not in logged


def test_a_dry_run_says_so(server: ApiServer, hook: Hook) -> None:
    """A hook with side effects can leave them."""
    for query in ("?dryRun=All", ""):
        assert send(server, "POST", f"{CONFIG_MAPS.path(HOME)}{query}", config_map("a"))[0] == 201
    assert [each.dry_run for each in hook.asked] == [True, False]
