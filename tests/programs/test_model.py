"""Programs on cards without gates (`--model`): the same programs as on the RTL, and one card of each on a cable."""

import re
from pathlib import Path

import pytest
from pairs import end, run_pair

HERE = Path(__file__).parent
GID = {"eth": ["-g", "1"], "ib": []}  # an Ethernet port must send with a GID
PERFTEST_GID = {"eth": ["-x", "1"], "ib": []}
PINGPONGS = [
    ["ibv_rc_pingpong", "-c", "-n", "200"],
    ["ibv_rc_pingpong", "-c", "-n", "50", "-e"],
    ["ibv_rc_pingpong", "-c", "-n", "20", "-s", "100000"],
    ["ibv_rc_pingpong", "-c", "-n", "20", "-j"],
    ["ibv_uc_pingpong", "-n", "200"],
    ["ibv_ud_pingpong", "-s", "1000", "-n", "200"],
    ["ibv_srq_pingpong", "-n", "200"],
    ["ibv_xsrq_pingpong", "-n", "200"],
]
PERFTEST = [
    ["ib_write_bw", "-s", "65536", "-n", "100"],
    ["ib_read_lat", "-s", "64", "-n", "100"],
    ["ib_send_bw", "-c", "UD", "-s", "1024", "-n", "100"],
    ["ib_atomic_lat", "-n", "100"],
]
CARDS = """
[[card]]
model = {first}
[[card]]
model = {second}
[defaults]
kind = "{kind}"
[[link]]
ends = ["card0", "card1"]
"""


def assert_exchanged(done, words):
    assert done.returncode == 0, done
    for name in ("server", "client"):
        text = end(done, name)
        assert "invalid data" not in text and "rror" not in text, done
        if words[0] == "ibv_xsrq_pingpong":
            assert "success" in text, done
        else:
            iters = words[words.index("-n") + 1]
            assert f"{iters} iters in " in text, done


@pytest.mark.quick
@pytest.mark.parametrize("link", GID)
@pytest.mark.parametrize("words", PINGPONGS, ids="".join)
def test_pingpong(hca, row, link, words):
    row(words[0], " ".join([*words[1:], "(--model)"]), link)
    words = [*words, *GID[link]]
    done = run_pair(hca, words, [*words, "localhost"], "--model", "--link", link)
    assert_exchanged(done, words)


@pytest.mark.parametrize("link", GID)
@pytest.mark.parametrize("words", PERFTEST, ids="".join)
def test_perftest(hca, row, link, words):
    row(words[0], " ".join([*words[1:], "(--model)"]), link)
    words = [*words, *PERFTEST_GID[link]]
    done = run_pair(hca, words, [*words, "localhost"], "--model", "--link", link)
    assert done.returncode == 0, done
    size = words[words.index("-s") + 1] if "-s" in words else "8"
    assert re.search(rf"^ *{size} +100 ", end(done, "client"), re.MULTILINE), done


@pytest.mark.quick
@pytest.mark.parametrize("design", [["--model"], []], ids=["model", "rtl"])
@pytest.mark.parametrize("words", [PINGPONGS[0], PINGPONGS[2], *PERFTEST[:3]], ids="".join)
def test_shared_memory(hca, row, design, words):
    """Memory that the simulator has, too: pages, and what of a buffer is none."""
    row(words[0], " ".join([*words[1:], *design, "--share-memory"]), "eth")
    is_perftest = words in PERFTEST
    words = [*words, *(PERFTEST_GID if is_perftest else GID)["eth"]]
    done = run_pair(hca, words, [*words, "localhost"], *design, "--share-memory")
    if not is_perftest:
        assert_exchanged(done, words)
    assert done.returncode == 0, done


@pytest.mark.quick
@pytest.mark.parametrize("shares", [True, False])
def test_what_is_shared(hca, row, shares):
    """Whole pages, as long as they are registered; a child of fork has its own."""
    options = ["--share-memory"] * shares
    row("ibv_reg_mr", " ".join(["(--model)", *options]), "eth")
    words = ["python3", HERE / "share_end.py", "libibverbs.so.1"]
    done = run_pair(hca, words, words, "--model", *options, before=["env", "-u", "HCA_SHARE_MEMORY"])
    assert done.returncode == 0, done
    counts = [64, 64, 0, 1] if shares else [0, 0, 0, 0]
    registered, once, none, odd = (4096 * count for count in counts)
    says = f"""registered {registered}\nchild True\nsame True\nonce {once}\nnone {none}\nodd {odd}\nsame True"""
    assert end(done, "server") == end(done, "client") == says, done


@pytest.mark.parametrize("kind", ["ethernet", "infiniband"])
@pytest.mark.parametrize("first", [True, False])
def test_one_card_of_each(hca, row, tmp_path, kind, first):
    """Both ends compare every byte; whoever serves may be of either design."""
    link = "eth" if kind == "ethernet" else "ib"
    row("ibv_rc_pingpong", f"-c, one card of the model, {'server' if first else 'client'}", link)
    topology = tmp_path / "cards.toml"
    topology.write_text(CARDS.format(first=str(first).lower(), second=str(not first).lower(), kind=kind))
    words = ["ibv_rc_pingpong", "-c", "-n", "50", *GID[link]]
    assert_exchanged(run_pair(hca, words, [*words, "localhost"], "--topology", topology), words)


@pytest.mark.quick
@pytest.mark.parametrize(("options", "says"), [
    (["--model", "--firmware", "core"], "has no processor of its own"),
    (["--model", "--trace", "0:10"], "has no waveform"),
    (["--model", "--timeline", "t.json"], "leave --timeline or --model away"),
])
def test_what_it_does_not_have(hca, row, tmp_path, options, says):
    row("hca run --pair", " ".join(options))
    done = run_pair(hca, ["true"], ["true"], *options, "--keep", tmp_path / "kept")
    assert done.returncode != 0 and says in done.stderr, done
