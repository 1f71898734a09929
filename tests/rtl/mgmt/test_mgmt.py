"""hca_mgmt: registers, context port, mailbox, events and posts. One build, four groups of tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import simulate
from mgmt_ctx import gid_rows, link_rows, rows, slow_listener, sweep
from mgmt_dma import beats_behind_an_error, host_errors, mailbox_both_ways, refused_commands
from mgmt_events import (all_sources, empty_pop, function_control, link_events, posts,
                         all_wait)
from mgmt_regs import (access_rate, counters, function_registers, link_status_words, port_configuration,
                       two_masters)

# cocotb finds its tests among the names of this module.
__all__ = ["access_rate", "all_sources", "beats_behind_an_error", "counters", "empty_pop", "function_control",
           "function_registers", "gid_rows", "host_errors", "link_events", "link_rows", "link_status_words",
           "mailbox_both_ways", "port_configuration", "posts", "all_wait", "refused_commands",
           "rows", "slow_listener", "sweep", "two_masters"]


def test_mgmt():
    simulate("hca_mgmt", __name__)
