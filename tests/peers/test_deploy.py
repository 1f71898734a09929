"""docs/deploy.md, as it stands there, in a guest with two cards in its slots."""

import re
from pathlib import Path

import pytest
import vfio

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/deploy.md"
SERVER_PORT = 18515  # perftest's own


def boxes():
    """[(kind, commands)] of the page, in its order."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def slots(boot, hca):
    sim = vfio.two_cards(hca)
    slots = vfio.Slots(boot, "deploy", [sim.sockets / "card0.0", sim.sockets / "card1.0"], prepare=False)
    yield slots
    slots.guest.stop()
    sim.stop()


@pytest.mark.quick
def test_the_page(slots, row):
    """Steps 1 to 4 as root, what comes after the limit as the user."""
    row("docs/deploy.md", "every command of it, 5 and 6 not as root", "vfio <-> vfio")
    kinds = [kind for kind, _ in boxes()]
    assert kinds == ["", "", "", "", "", "server", "client"], kinds
    (_, groups), (_, listing), (_, binding), (_, limit), (_, looking), (_, server), (_, client) = boxes()
    assert len(slots.guest.check(groups).split()) >= 2
    found = [line.split()[0] for line in slots.guest.check(listing).splitlines()]
    assert found == slots.addresses, found
    said = slots.check(binding)
    assert all(address in said for address in slots.addresses), said

    def as_user(command):
        path = f"/tmp/step-{abs(hash(command))}"
        slots.guest.check(f"cat >{path} <<'END'\n{vfio.USE}\n{command}\nEND")
        return slots.guest.start(f"{limit.strip()}; exec su -s /bin/sh nobody {path}")

    looked = as_user(looking).done()
    assert looked.code == 0 and looked.text.count("state:\t\t\tPORT_ACTIVE") == 2, looked
    first = as_user(server)
    slots.guest.wait_listens(first, SERVER_PORT)
    done = [job.done() for job in (as_user(client), first)]
    for end in done:
        assert end.code == 0 and re.search(r"^ 65536 +100 ", end.text, re.MULTILINE), done
