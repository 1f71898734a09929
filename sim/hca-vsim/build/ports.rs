//! The ports of a card: one table, for Rust and for C++.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Ports of `hca_core` that the simulator uses: direction, name, type. `Beat` is 512 bits. The C++ compiler
/// refuses a model that lacks one of them or has it in another width; further ports of a model are ignored.
const PORTS: &[(Dir, &str, Ty)] = &[
    (Dir::In, "clk_i", Ty::U8),
    (Dir::In, "rst_i", Ty::U8),
    (Dir::In, "now_i", Ty::U64),
    (Dir::In, "mmio_wr_valid_i", Ty::U8),
    (Dir::Out, "mmio_wr_ready_o", Ty::U8),
    (Dir::In, "mmio_wr_func_i", Ty::U8),
    (Dir::In, "mmio_wr_addr_i", Ty::U16),
    (Dir::In, "mmio_wr_data_i", Ty::U64),
    (Dir::In, "mmio_wr_strb_i", Ty::U8),
    (Dir::In, "mmio_rd_valid_i", Ty::U8),
    (Dir::Out, "mmio_rd_ready_o", Ty::U8),
    (Dir::In, "mmio_rd_func_i", Ty::U8),
    (Dir::In, "mmio_rd_addr_i", Ty::U16),
    (Dir::Out, "mmio_rdata_valid_o", Ty::U8),
    (Dir::Out, "mmio_rdata_o", Ty::U32),
    (Dir::Out, "hrd_req_valid_o", Ty::U8),
    (Dir::In, "hrd_req_ready_i", Ty::U8),
    (Dir::Out, "hrd_req_tag_o", Ty::U8),
    (Dir::Out, "hrd_req_func_o", Ty::U8),
    (Dir::Out, "hrd_req_addr_o", Ty::U64),
    (Dir::Out, "hrd_req_len_o", Ty::U16),
    (Dir::In, "hrd_rsp_valid_i", Ty::U8),
    (Dir::In, "hrd_rsp_tag_i", Ty::U8),
    (Dir::In, "hrd_rsp_last_i", Ty::U8),
    (Dir::In, "hrd_rsp_err_i", Ty::U8),
    (Dir::In, "hrd_rsp_data_i", Ty::Beat),
    (Dir::Out, "hwr_valid_o", Ty::U8),
    (Dir::In, "hwr_ready_i", Ty::U8),
    (Dir::Out, "hwr_msix_o", Ty::U8),
    (Dir::Out, "hwr_last_o", Ty::U8),
    (Dir::Out, "hwr_func_o", Ty::U8),
    (Dir::Out, "hwr_addr_o", Ty::U64),
    (Dir::Out, "hwr_strb_o", Ty::U64),
    (Dir::Out, "hwr_data_o", Ty::Beat),
    (Dir::Out, "mac_tx_valid_o", Ty::U8),
    (Dir::In, "mac_tx_ready_i", Ty::U8),
    (Dir::Out, "mac_tx_link_o", Ty::U8),
    (Dir::Out, "mac_tx_last_o", Ty::U8),
    (Dir::Out, "mac_tx_len_o", Ty::U8),
    (Dir::Out, "mac_tx_data_o", Ty::Beat),
    (Dir::In, "mac_up_i", Ty::U8),
    (Dir::In, "mac_rx_valid_i", Ty::U8),
    (Dir::In, "mac_rx_err_i", Ty::U8),
    (Dir::In, "mac_rx_link_i", Ty::U8),
    (Dir::In, "mac_rx_last_i", Ty::U8),
    (Dir::In, "mac_rx_len_i", Ty::U8),
    (Dir::In, "mac_rx_data_i", Ty::Beat),
    (Dir::In, "num_ports_i", Ty::U8),
    (Dir::Out, "mac1_tx_valid_o", Ty::U8),
    (Dir::In, "mac1_tx_ready_i", Ty::U8),
    (Dir::Out, "mac1_tx_link_o", Ty::U8),
    (Dir::Out, "mac1_tx_last_o", Ty::U8),
    (Dir::Out, "mac1_tx_len_o", Ty::U8),
    (Dir::Out, "mac1_tx_data_o", Ty::Beat),
    (Dir::In, "mac1_up_i", Ty::U8),
    (Dir::In, "mac1_rx_valid_i", Ty::U8),
    (Dir::In, "mac1_rx_err_i", Ty::U8),
    (Dir::In, "mac1_rx_link_i", Ty::U8),
    (Dir::In, "mac1_rx_last_i", Ty::U8),
    (Dir::In, "mac1_rx_len_i", Ty::U8),
    (Dir::In, "mac1_rx_data_i", Ty::Beat),
    (Dir::In, "fw_req_i", Ty::U8),
    (Dir::In, "fw_we_i", Ty::U8),
    (Dir::In, "fw_addr_i", Ty::U32),
    (Dir::In, "fw_wdata_i", Ty::U32),
    (Dir::Out, "fw_req_stall_o", Ty::U8),
    (Dir::Out, "fw_rd_ack_o", Ty::U8),
    (Dir::Out, "fw_wr_ack_o", Ty::U8),
    (Dir::Out, "fw_rdata_o", Ty::U32),
    (Dir::Out, "fw_irq_o", Ty::U8),
    (Dir::Out, "timer_active_o", Ty::U8),
    (Dir::Out, "wake_at_o", Ty::U64),
    (Dir::Out, "link_active_o", Ty::U8),
    (Dir::Out, "link_wake_at_o", Ty::U64),
    (Dir::Out, "trace_strobe_o", Ty::U16),
    (Dir::Out, "trace_qpc_qpn_o", Ty::U32),
    (Dir::Out, "trace_qpc_init_o", Ty::U8),
    (Dir::Out, "trace_qpc_func_o", Ty::U8),
    (Dir::Out, "trace_qpc_dest_qpn_o", Ty::U32),
    (Dir::Out, "trace_qpc_sq_base_o", Ty::U64),
    (Dir::Out, "trace_qpc_sq_logs_o", Ty::U8),
    (Dir::Out, "trace_qpc_cqns_o", Ty::U32),
    (Dir::Out, "trace_omt_qpn_o", Ty::U16),
    (Dir::Out, "trace_omt_wqe_index_o", Ty::U32),
    (Dir::Out, "trace_omt_opcode_o", Ty::U8),
    (Dir::Out, "trace_omt_signaled_o", Ty::U8),
    (Dir::Out, "trace_omt_last_psn_o", Ty::U32),
    (Dir::Out, "trace_omt_len_o", Ty::U32),
    (Dir::Out, "trace_emit_qpn_o", Ty::U16),
    (Dir::Out, "trace_emit_psn_o", Ty::U32),
    (Dir::Out, "trace_sent_qpn_o", Ty::U16),
    (Dir::Out, "trace_sent_opcode_o", Ty::U8),
    (Dir::Out, "trace_sent_psn_o", Ty::U32),
    (Dir::Out, "trace_rxd_qpn_o", Ty::U32),
    (Dir::Out, "trace_rxd_opcode_o", Ty::U8),
    (Dir::Out, "trace_rxd_psn_o", Ty::U32),
    (Dir::Out, "trace_rxd_syndrome_o", Ty::U8),
    (Dir::Out, "trace_end_kind_o", Ty::U8),
    (Dir::Out, "trace_end_frees_o", Ty::U8),
    (Dir::Out, "trace_end_ok_o", Ty::U8),
    (Dir::Out, "trace_end_beats_o", Ty::U16),
    (Dir::Out, "trace_upd_qpn_o", Ty::U16),
    (Dir::Out, "trace_upd_una_wqe_o", Ty::U32),
];

#[derive(Clone, Copy)]
enum Dir {
    In,
    Out,
}

#[derive(Clone, Copy)]
enum Ty {
    U8,
    U16,
    U32,
    U64,
    Beat,
}

impl Ty {
    fn rust(self) -> &'static str {
        match self {
            Ty::U8 => "u8",
            Ty::U16 => "u16",
            Ty::U32 => "u32",
            Ty::U64 => "u64",
            Ty::Beat => "Beat",
        }
    }

    fn zero(self) -> &'static str {
        match self {
            Ty::Beat => "[0; 16]",
            _ => "0",
        }
    }

    fn cpp(self) -> &'static str {
        match self {
            Ty::U8 => "CData",
            Ty::U16 => "SData",
            Ty::U32 => "IData",
            Ty::U64 => "QData",
            Ty::Beat => "VlWide<16>",
        }
    }
}

/// The same table for both languages: a struct of pointers into the model.
pub fn write(out: &Path, data_vls: u8, cpu_level: u8) {
    let (mut fields, mut clears) = (String::new(), String::new());
    let (mut cpp, mut checks) = (String::new(), String::new());
    for (dir, name, ty) in PORTS {
        let dir = match dir {
            Dir::In => {
                writeln!(clears, "        self.{name}.set({});", ty.zero()).expect("write to a string");
                "In"
            }
            Dir::Out => "Out",
        };
        let doc = format!("Port `{name}` of `hca_core`.");
        writeln!(fields, "    /// {doc}\n    pub {name}: {dir}<{}>,", ty.rust()).expect("write to a string");
        writeln!(cpp, "    {}* {name};", ty.cpp()).expect("write to a string");
        writeln!(checks, "    ports->{name} = &model->{name};").expect("write to a string");
    }
    let rust = format!(
        "/// Data VLs that each port of a card is built with.\npub const DATA_VLS: u8 = {};\n\
         /// The x86-64 level that the models were compiled for; 1 where that is not known.\n\
         pub const CPU_LEVEL: u8 = {};\n\
         /// The ports of a card.\n#[repr(C)]\npub struct Ports {{\n{fields}}}\n\
         impl Ports {{\n    fn clear_inputs(&self) {{\n{clears}    }}\n}}\n",
        data_vls, cpu_level
    );
    let cpp = format!(
        "struct HcaPorts {{\n{cpp}}};\n\
         template <class M> void hca_fill_ports(M* model, HcaPorts* ports) {{\n{checks}}}\n"
    );
    fs::write(out.join("ports.rs"), rust).expect("OUT_DIR is writable");
    fs::write(out.join("hca_ports.h"), cpp).expect("OUT_DIR is writable");
}
