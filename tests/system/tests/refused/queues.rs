//! Queues: events, completions.

use hca_abi::{AdminOpcode as Op, AdminStatus as Status};

use super::{Case, NOWHERE, Objects, broken};

pub fn queue_cases(own: &Objects, other: &Objects) -> Vec<Case> {
    use Status::{BadHandle, BadLength, BadParam, DmaError};
    let mut cases = broken(
        Op::CreateEq,
        own.create_eq(),
        |cmd| cmd.0,
        &[
            ("log_size", &|cmd| cmd.set_log_size(16), BadLength),
            (
                "base between lines",
                &|cmd| cmd.set_base(cmd.base() + 8),
                BadParam,
            ),
            ("vector", &|cmd| cmd.set_vector(0xffff), BadParam),
            ("base nowhere", &|cmd| cmd.set_base(NOWHERE), DmaError),
            (
                "end of the address space",
                &|cmd| cmd.set_base(u64::MAX - 63),
                BadParam,
            ),
        ],
    );
    cases.extend(broken(
        Op::CreateCq,
        own.create_cq(),
        |cmd| cmd.0,
        &[
            ("log_size", &|cmd| cmd.set_log_size(23), BadLength),
            (
                "base between lines",
                &|cmd| cmd.set_base(cmd.base() + 1),
                BadParam,
            ),
            ("eqn of nobody", &|cmd| cmd.set_eqn(200), BadHandle),
            ("eqn of the neighbour", &|cmd| cmd.set_eqn(other.eqn), BadHandle),
            ("base nowhere", &|cmd| cmd.set_base(NOWHERE), DmaError),
            ("end nowhere", &|cmd| cmd.set_log_size(22), DmaError),
        ],
    ));
    cases.extend(broken(
        Op::ResizeCq,
        own.resize_cq(),
        |cmd| cmd.0,
        &[
            ("smaller", &|cmd| cmd.set_log_size(3), BadLength),
            ("log_size", &|cmd| cmd.set_log_size(23), BadLength),
            (
                "base between lines",
                &|cmd| cmd.set_base(cmd.base() + 32),
                BadParam,
            ),
            ("cqn of nobody", &|cmd| cmd.set_cqn(0xff_ffff), BadHandle),
            ("cqn of the neighbour", &|cmd| cmd.set_cqn(other.cqn), BadHandle),
            ("base nowhere", &|cmd| cmd.set_base(NOWHERE), DmaError),
        ],
    ));
    cases.extend(broken(
        Op::ModifyCq,
        own.modify_cq(),
        |cmd| cmd.0,
        &[
            ("cqn of nobody", &|cmd| cmd.set_cqn(0xff_ffff), BadHandle),
            ("cqn of the neighbour", &|cmd| cmd.set_cqn(other.cqn), BadHandle),
        ],
    ));
    cases
}
