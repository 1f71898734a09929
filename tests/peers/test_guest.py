"""The guests themselves: that what goes wrong in one is told, at once and with its console."""

import pytest
from guest import GATEWAY, GuestError


@pytest.fixture(scope="module")
def guest(boot):
    guest = boot("guest")
    yield guest
    guest.stop()


@pytest.mark.quick
def test_codes_and_output_come_back(guest):
    done = guest.run("echo one; echo two >&2; exit 7")
    assert (done.code, done.text) == (7, "one\ntwo\n")
    assert guest.run("kill -KILL $$").code == 128 + 9


@pytest.mark.quick
def test_a_command_that_fails_is_told_with_its_output(guest):
    with pytest.raises(AssertionError, match="exit code 1\n.*No such file"):
        guest.check("cat /nowhere")


def test_several_programs_at_once_end_in_any_order(guest):
    guest.check("mkfifo /tmp/fifo")
    first = guest.start("read line </tmp/fifo; echo got $line")
    guest.check("echo word >/tmp/fifo")
    assert first.done().text == "got word\n"


def test_a_program_is_killed_with_all_that_it_has_started(guest):
    job = guest.start("sleep 1000 & echo $!; wait")
    child = job.prints(r"\d+")[0]
    job.kill()
    # It has the signal already, but may not have had the processor since; then it is init's until init looks.
    guest.check(f"while grep -q '^State:.[^Z]' /proc/{child}/status; do usleep 20000; done", limit_s=20)


def test_a_program_that_does_not_end_fails_and_is_killed(guest):
    with pytest.raises(GuestError, match="had not ended after 1 s.*\nwaiting\n"):
        guest.run("echo waiting; sleep 1000", limit_s=1)
    assert "sleep 1000" not in guest.check("ps -o args")


def test_a_program_that_ends_before_it_says_so_fails(guest):
    with pytest.raises(GuestError, match="ended before it printed 'ready'"):
        guest.start("echo not yet").prints("ready")


@pytest.mark.quick
def test_tcp_leads_both_ways(guest):
    """From the guest to this machine, and back through the guest's ports."""
    port = next(guest.ports)
    server = guest.start(f"echo answer | nc -l -p {port}")
    guest.wait_listens(server, port)
    assert guest.check(f"nc {GATEWAY} {port} </dev/null") == "answer\n"
    assert server.done().code == 0


def test_a_reset_starts_it_anew(guest):
    guest.check("touch /tmp/before")
    job = guest.start("sleep 1000")
    guest.reset()
    assert job.ended() and guest.run("test -e /tmp/before").code == 1


def test_a_kernel_that_fails_is_told_with_the_console(boot):
    guest = boot("failing")
    with pytest.raises(GuestError, match="(?s)guest failing: .*sysrq triggered crash"):
        guest.run("echo c >/proc/sysrq-trigger")
    guest.stop()


def test_a_qemu_that_ends_is_told(boot):
    with pytest.raises(GuestError, match="(?s)QEMU ended with 1: .*no-such-device"):
        boot("none", "-device", "no-such-device")
