"""libibverbs from a C program: what its statements promise, each named in verbs_statements.c where it is looked at."""

import pathlib
import subprocess

import pytest


@pytest.mark.quick
@pytest.mark.parametrize("link", ["eth", "ib"])
def test_statements(simulators, row, tmp_path, link):
    row("what libibverbs promises", "", link)
    program = tmp_path / "verbs_statements"
    source = pathlib.Path(__file__).with_name("verbs_statements.c")
    subprocess.run(["cc", "-Wall", "-Werror", "-o", program, source, "-libverbs"], check=True)
    done = simulators(link=link).run(0, program)
    assert done.code == 0 and " 0 do not hold" in done.text, done


# With the list of drivers that such programs name.
STATIC = """
#define RDMA_STATIC_PROVIDERS none
#include <infiniband/verbs.h>
#include <stdio.h>
int main(void)
{
    int count = -1;
    struct ibv_device **list = ibv_get_device_list(&count);
    printf("%d devices, %s\\n", count, list && list[0] ? "one" : "none");
    return 0;
}
"""


@pytest.mark.quick
def test_a_static_program_sees_no_card(simulators, row, tmp_path):
    """V-3: a program that has rdma-core's libibverbs in itself cannot be led to another one: its list is empty."""
    row("a program linked with -static", "RDMA_STATIC_PROVIDERS")
    row.result("ends with '0 devices'")
    source, program = tmp_path / "static.c", tmp_path / "static"
    source.write_text(STATIC, encoding="ascii")
    words = ["cc", "-static", "-o", program, source, "-libverbs", "-lnl-route-3", "-lnl-3", "-pthread"]
    subprocess.run(words, check=True, capture_output=True)
    done = simulators().run(0, program)
    assert done.code == 0 and "0 devices, none" in done.text, done
