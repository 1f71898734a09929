"""hca_mw, fast registration: random REG_MR, LOCAL_INV and SENDs with invalidate on random rows against the rules
written again; which lines of page lists are forgotten, and when."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import cocotb
from common import simulate
from hca_abi import WcStatus
from test_mw import (BIND, DIRECT, INV, LOG_ROWS, MSG_INV_DONE, MSG_MW_DONE, MSG_SQ_ERROR, NAK_REMOTE_ACCESS, OP, ROWS,
                     TABLES, Card, key_of, row_at)

LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, MW_BIND, ZERO_BASED = 1, 2, 4, 8, 16, 32
RIGHTS = {"local_write": LOCAL_WRITE, "remote_write": REMOTE_WRITE, "remote_read": REMOTE_READ,
          "remote_atomic": REMOTE_ATOMIC}
LINE_PAGES, WALK_LINES = 8, 64


class FastCard(Card):
    """Most rows are of regions for fast registration."""

    def random_row(self, func, row):
        """Free, registered, or something else."""
        rng = self.rng
        shift = rng.choice((12, 16, 21, 30))
        rights = {name: rng.getrandbits(1) for name in RIGHTS} if rng.getrandbits(1) else {}
        return dict(rights, is_fast=rng.random() < 0.9, is_window=rng.random() < 0.05, valid=rng.random() < 0.4,
                    tag=rng.getrandbits(1), func=func if rng.random() < 0.95 else 3, pd=rng.getrandbits(1),
                    start=rng.getrandbits(48), length=1 + rng.getrandbits(16), page_shift=shift,
                    iova=rng.getrandbits(40) << 6, max_pages=rng.choice((1, 2, 20, 1000, (1 << 32) - 1)),
                    num_pages=rng.choice((0, 1, 8, 9, 100, 512, 513, 70_000)))


def pages_of(op, wqe):
    """Pages that a region touches."""
    shift = wqe["page_shift"]
    return (op["va"] + wqe["length"] - 1 >> shift) - (op["va"] >> shift) + 1


def verdict(card, op, wqe, remote):
    """(allowed, the row from then on), by the rules."""
    row = row_at(card, op["func"], op["key"])
    if row is None or TABLES[op["func"]] + 64 * row in card.bad:
        return False, None
    old = card.rows.get((op["func"], row), {})
    if not old or old["func"] != op["func"] or old["pd"] != op["pd"] or old["is_window"] or not old["is_fast"]:
        return False, None
    if not op["reg_mr"]:
        has_right = any(old.get(name) for name in RIGHTS if name != "local_write")
        return old["valid"] and old["tag"] == op["key"] % 256 and (has_right or not remote), dict(old, valid=0)
    access = wqe["access"]
    good = (not old["valid"] and not access & (MW_BIND | ZERO_BASED)
            and (access & LOCAL_WRITE or not access & (REMOTE_WRITE | REMOTE_ATOMIC))
            and 12 <= wqe["page_shift"] <= 30 and 0 < wqe["length"] <= 1 << 48
            and op["va"] + wqe["length"] < 1 << 64 and wqe["page_list_addr"] % 64 == 0
            and pages_of(op, wqe) <= old["max_pages"])
    if not good:
        return False, None
    new = {name: bool(access & bit) for name, bit in RIGHTS.items()}
    return True, dict(
        old, valid=1, mw_bind=0, zero_based=0, tag=op["key"] % 256, start=op["va"], length=wqe["length"],
        page_shift=wqe["page_shift"], iova=wqe["page_list_addr"], num_pages=pages_of(op, wqe),
        list_offset=op["va"] % (1 << wqe["page_shift"]), **new)


def random_op(card):
    """(fields of mw_op_t, of sq_wqe_bind_t): mostly sensible."""
    rng = card.rng
    func = rng.choice((0, 0, 0, 1, 1, 2))
    row = rng.randrange(1, ROWS + 1)
    old = card.rows.get((func, row), {})
    reg = not old.get("valid") if rng.random() < 0.9 else rng.getrandbits(1)
    op = {"bind_mw": 0, "reg_mr": reg, "func": func, "pd": old.get("pd", 0) ^ (rng.random() < 0.05),
          "qpn": rng.choice((1, 2)), "wqe_index": rng.getrandbits(16)}
    tag = rng.getrandbits(8) if reg or rng.random() < 0.1 else old.get("tag", 0)
    op["key"] = key_of(func if rng.random() < 0.97 else 1, row if rng.random() < 0.97 else 1 << LOG_ROWS, tag)
    op["va"] = rng.choice((rng.getrandbits(48), rng.getrandbits(13), 0, (1 << 64) - 1 - rng.getrandbits(14)))
    shift = rng.choice((12, 12, 13, 21, 30)) if rng.random() < 0.95 else rng.choice((0, 11, 31, 44, DIRECT))
    pages = old.get("max_pages", 1)
    edge = pages * (1 << shift) - op["va"] % (1 << shift)   # the longest that its pages hold
    wqe = {"length": rng.choice((1, 4096, 5000, 1 << 20, edge, edge + 1, 0, 1 << 48, (1 << 48) + 1, (1 << 64) - 1))
           % (1 << 64), "lkey": rng.getrandbits(32), "page_shift": shift,
           "access": rng.choice((0, 1, 3, 4, 7, 15, 2, 8, 17, 33)) if rng.random() < 0.3 else rng.choice((1, 7, 15)),
           "page_list_addr": rng.getrandbits(50) << 6 | (rng.random() < 0.05) << 3}
    return op, wqe


def check_forgotten(card, op, old):
    """Of the page list of before every line is forgotten, one by one where they are few."""
    got = [what for kind, what in card.log if kind == "forget"]
    index, pages = op["key"] >> 8, old["num_pages"] if op["reg_mr"] else 0
    lines = -(-pages // LINE_PAGES)
    if not pages or lines > WALK_LINES:
        assert got == [{"all": 0, "pages": int(pages > 0), "one": 0, "line": 0, "index": index}]
    else:
        assert got == [{"all": 0, "pages": 1, "one": 1, "line": line, "index": index} for line in range(lines)]
    return len(got)


@cocotb.test()
async def random_registrations(dut):
    """MEM-16, OP-11, KEY-30: verdict, row, and order of every step."""
    card = await FastCard(dut, 5).start()
    rng, seen = card.rng, set()
    for _ in range(2500):
        op, wqe = random_op(card)
        remote = not op["reg_mr"] and rng.getrandbits(1)
        card.bad = {TABLES[rng.randrange(2)] + 64 * rng.randrange(ROWS)} if rng.random() < 0.1 else set()
        good, row = verdict(card, op, wqe, remote)
        name, before = (op["func"], row_at(card, op["func"], op["key"])), dict(card.rows)
        card.log.clear()
        if remote:
            card.inv.append(INV.pack(func=op["func"], pd=op["pd"], qpn=op["qpn"], key=op["key"]))
        else:
            card.op.put(OP.pack(**op, wqe=BIND.pack(**wqe)))
        await card.bench.until(lambda: card.log and card.log[-1][0] == "msg", what=f"an answer to {op} {wqe}",
                               limit=20000)
        answer, steps = card.log[-1][1], [kind for kind, _ in card.log if kind != "read"]
        seen.add((remote, bool(op["reg_mr"]), bool(good)))
        if remote:
            assert answer["kind"] == MSG_INV_DONE and steps.pop(0) == "fence"
            assert (answer["status"], answer["syndrome"]) == (
                (0, 0) if good else (WcStatus.REM_ACCESS_ERR, NAK_REMOTE_ACCESS)), (op, before.get(name))
        else:
            assert answer["wqe_index"] == op["wqe_index"]
            assert (answer["kind"], answer["status"]) == (
                (MSG_MW_DONE, 0) if good else (MSG_SQ_ERROR, WcStatus.MW_BIND_ERR)), (op, wqe, before.get(name))
        if not good:
            assert steps == ["msg"] and card.rows == before, "a refusal changes nothing"
            if rng.random() < 0.3 and name in card.rows:
                card.rows[name] = card.random_row(*name)
            continue
        forgets = check_forgotten(card, op, before[name])
        assert steps == ["write"] + ["forget"] * forgets + ["fence"] * (not op["reg_mr"]) + ["msg"]
        for field, value in row.items():
            assert card.rows[name].get(field, 0) == value, (field, op, wqe)
        if rng.random() < 0.3:
            card.rows[name] = card.random_row(*name)
    assert len(seen) == 6, seen


def test_mw_fast():
    simulate("hca_mw", __name__)
