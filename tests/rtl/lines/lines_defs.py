"""Names of layouts and numbers around hca_lines."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import constants, struct

WANT, CFG, SHUT, HOLDER = struct("line_want_t"), struct("lines_cfg_t"), struct("line_shut_t"), struct("line_holder_t")
HINT = struct("line_hint_t")
QPC, QPC_WR, OLD, EV = struct("qpc_t"), struct("qpc_wr_t"), struct("qpc_record_t"), struct("hw_ev_t")
RECORD, REQ, RSP, WR = struct("record_wr_t"), struct("dma_rd_req_t"), struct("dma_rd_rsp_t"), struct("dma_wr_t")
PARK, PARK_SLOTS = struct("park_want_t"), 128
SQ, RQ, ASK, FILL = range(4)
RTS, ERR = 3, 6
SINKS, RX_CTRL, DOOR = 6, 2, 5
LINE_BITS, INDEX_BITS, BASE = constants()["QpW"], 12, 0x12_3456_7000 >> 8
BEAT = (1 << 512) - 1
STAY, STAY_BUSY = 16, 200
