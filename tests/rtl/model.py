"""Models of the block tests, made for a short life: what costs a compiler time is done once for all of them
(model.mk), and only what tests touch is public. cocotb's own way makes every signal public, which keeps Verilator from
optimizing."""

import os
import subprocess
from pathlib import Path

import cocotb_tools.config
from cocotb_tools.runner import Verilator

ROOT = Path(__file__).resolve().parent.parent.parent
MAKEFILE = Path(__file__).with_name("model.mk")
MODELS = ROOT / "target" / "rtl"


class Runner(Verilator):
    """cocotb's, but for the build. Public are the top's ports and parameters, and `mem` of the modules `memories`."""

    def __init__(self, memories=()):
        super().__init__()
        self.memories = memories
        tools = ROOT / ".tools" / "verilator" / "bin"
        if tools.is_dir():
            os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"

    def _public(self):
        """What is public, in Verilator's own words."""
        lines = ["`verilator_config", *(f'public_flat_rw -module "{name}" -var "mem"' for name in self.memories)]
        for pattern in ("*_i", "*_o", *self.parameters):
            lines.append(f'public_flat_rw -module "{self.hdl_toplevel}" -var "{pattern}"')
        path = Path(self.build_dir) / "public.vlt"
        text = "\n".join([*lines, ""])
        # A file that is newer would make Verilator, and with it the compiler, begin anew.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        return str(path)

    def _build_command(self):
        verilate = super()._build_command()[0]
        verilate[verilate.index("--public-flat-rw")] = self._public()
        root = subprocess.run([self.executable, "--getenv", "VERILATOR_ROOT"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()
        runtime = MODELS / ("runtime-waves" if self.waves else "runtime")
        runtime.mkdir(parents=True, exist_ok=True)
        make = ["make", "--silent", "-f", str(MAKEFILE), "-C", str(self.build_dir), f"TOP={self.hdl_toplevel}",
                f"VERILATOR_ROOT={root}", f"COCOTB_LIBS={cocotb_tools.config.libs_dir}",
                f"COCOTB_SHARE={cocotb_tools.config.share_dir}", f"RUNTIME={runtime}", f"TRACE={int(self.waves)}"]
        return [verilate, ["flock", str(runtime.with_suffix(".lock")), *make, "-j2", "runtime"], make]
