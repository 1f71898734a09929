//! The QP state machine: which modify is legal, by service, from which state to which, with which attributes
//! (requirements QPS-2, QPS-3, QPS-18 and tables QPS-T-UD, QPS-T-UC, QPS-T-RC).

use hca_abi::{QpState, Service, qp_attr};

bitflags::bitflags! {
    /// Attribute mask of MODIFY_QP: the values of `enum ibv_qp_attr_mask` (requirements 8.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Attr: u32 {
        /// `IBV_QP_STATE`
        const STATE = qp_attr::STATE;
        /// `IBV_QP_CUR_STATE`
        const CUR_STATE = qp_attr::CUR_STATE;
        /// `IBV_QP_EN_SQD_ASYNC_NOTIFY`
        const EN_SQD_ASYNC_NOTIFY = qp_attr::EN_SQD_ASYNC_NOTIFY;
        /// `IBV_QP_ACCESS_FLAGS`
        const ACCESS_FLAGS = qp_attr::ACCESS_FLAGS;
        /// `IBV_QP_PKEY_INDEX`
        const PKEY_INDEX = qp_attr::PKEY_INDEX;
        /// `IBV_QP_PORT`
        const PORT = qp_attr::PORT;
        /// `IBV_QP_QKEY`
        const QKEY = qp_attr::QKEY;
        /// `IBV_QP_AV`
        const AV = qp_attr::AV;
        /// `IBV_QP_PATH_MTU`
        const PATH_MTU = qp_attr::PATH_MTU;
        /// `IBV_QP_TIMEOUT`
        const TIMEOUT = qp_attr::TIMEOUT;
        /// `IBV_QP_RETRY_CNT`
        const RETRY_CNT = qp_attr::RETRY_CNT;
        /// `IBV_QP_RNR_RETRY`
        const RNR_RETRY = qp_attr::RNR_RETRY;
        /// `IBV_QP_RQ_PSN`
        const RQ_PSN = qp_attr::RQ_PSN;
        /// `IBV_QP_MAX_QP_RD_ATOMIC`
        const MAX_QP_RD_ATOMIC = qp_attr::MAX_QP_RD_ATOMIC;
        /// `IBV_QP_ALT_PATH`
        const ALT_PATH = qp_attr::ALT_PATH;
        /// `IBV_QP_MIN_RNR_TIMER`
        const MIN_RNR_TIMER = qp_attr::MIN_RNR_TIMER;
        /// `IBV_QP_SQ_PSN`
        const SQ_PSN = qp_attr::SQ_PSN;
        /// `IBV_QP_MAX_DEST_RD_ATOMIC`
        const MAX_DEST_RD_ATOMIC = qp_attr::MAX_DEST_RD_ATOMIC;
        /// `IBV_QP_PATH_MIG_STATE`
        const PATH_MIG_STATE = qp_attr::PATH_MIG_STATE;
        /// `IBV_QP_CAP`
        const CAP = qp_attr::CAP;
        /// `IBV_QP_DEST_QPN`
        const DEST_QPN = qp_attr::DEST_QPN;
        /// `IBV_QP_RATE_LIMIT`
        const RATE_LIMIT = qp_attr::RATE_LIMIT;
    }
}

/// Attributes a transition needs and those it also takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Every one of these must be given.
    pub required: Attr,
    /// Any of these may be given.
    pub optional: Attr,
}

/// Why a modify is refused; the QP is untouched (QPS-18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such transition for this service.
    NoSuchTransition,
    /// A required attribute is missing; the mask names all that are.
    Missing(Attr),
    /// An attribute is not taken in this transition; the mask names all that are not.
    NotTaken(Attr),
}

const fn rule(required: Attr, optional: Attr) -> Option<Rule> {
    Some(Rule { required, optional })
}

/// The rule of one transition, if the transition exists.
pub fn rule_of(service: Service, from: QpState, to: QpState) -> Option<Rule> {
    if matches!(to, QpState::Reset | QpState::Err) {
        return rule(Attr::STATE, Attr::empty());
    }
    match service {
        Service::Ud => ud_rule(from, to),
        Service::Uc => uc_rule(from, to),
        Service::Rc => rc_rule(from, to),
        Service::Xrc => initiator_rule(from, to),
        Service::Raw => raw_rule(from, to),
    }
}

/// The same of a target of XRC.
pub fn rule_of_target(from: QpState, to: QpState) -> Option<Rule> {
    if matches!(to, QpState::Reset | QpState::Err) {
        return rule(Attr::STATE, Attr::empty());
    }
    target_rule(from, to)
}

fn ud_rule(from: QpState, to: QpState) -> Option<Rule> {
    use QpState::*;
    let id = Attr::PKEY_INDEX.union(Attr::PORT).union(Attr::QKEY);
    let cur_qkey = Attr::CUR_STATE.union(Attr::QKEY);
    let pkey_qkey = Attr::PKEY_INDEX.union(Attr::QKEY);
    match (from, to) {
        (Reset, Init) => rule(Attr::STATE | id, Attr::empty()),
        (Init, Init) => rule(Attr::empty(), Attr::STATE | id),
        (Init, Rtr) => rule(Attr::STATE, pkey_qkey),
        (Rtr, Rts) => rule(Attr::STATE | Attr::SQ_PSN, cur_qkey),
        (Rts, Rts) => rule(Attr::empty(), Attr::STATE | cur_qkey),
        (Rts, Sqd) => rule(Attr::STATE, Attr::EN_SQD_ASYNC_NOTIFY),
        (Sqd, Rts) | (Sqe, Rts) => rule(Attr::STATE, cur_qkey),
        (Sqd, Sqd) => rule(Attr::empty(), Attr::STATE | pkey_qkey),
        _ => None,
    }
}

/// QPS-20: what a raw QP needs is its port.
fn raw_rule(from: QpState, to: QpState) -> Option<Rule> {
    use QpState::*;
    match (from, to) {
        (Reset, Init) => rule(Attr::STATE | Attr::PORT, Attr::empty()),
        (Init, Init) => rule(Attr::empty(), Attr::STATE | Attr::PORT),
        (Init, Rtr) => rule(Attr::STATE, Attr::empty()),
        (Rtr, Rts) => rule(Attr::STATE, Attr::CUR_STATE),
        (Rts, Rts) => rule(Attr::empty(), Attr::STATE | Attr::CUR_STATE),
        (Rts, Sqd) => rule(Attr::STATE, Attr::EN_SQD_ASYNC_NOTIFY),
        (Sqd, Rts) | (Sqe, Rts) => rule(Attr::STATE, Attr::CUR_STATE),
        (Sqd, Sqd) => rule(Attr::empty(), Attr::STATE),
        _ => None,
    }
}

fn uc_rule(from: QpState, to: QpState) -> Option<Rule> {
    use QpState::*;
    let id = Attr::PKEY_INDEX.union(Attr::PORT).union(Attr::ACCESS_FLAGS);
    let path = Attr::ACCESS_FLAGS
        .union(Attr::ALT_PATH)
        .union(Attr::PATH_MIG_STATE);
    let connect = Attr::STATE | Attr::PATH_MTU | Attr::AV | Attr::DEST_QPN | Attr::RQ_PSN;
    match (from, to) {
        (Reset, Init) => rule(Attr::STATE | id, Attr::empty()),
        (Init, Init) => rule(Attr::empty(), Attr::STATE | id),
        (Init, Rtr) => rule(connect, Attr::PKEY_INDEX | Attr::ALT_PATH | Attr::ACCESS_FLAGS),
        (Rtr, Rts) => rule(Attr::STATE | Attr::SQ_PSN, Attr::CUR_STATE | path),
        (Rts, Rts) => rule(Attr::empty(), Attr::STATE | Attr::CUR_STATE | path),
        (Rts, Sqd) => rule(Attr::STATE, Attr::EN_SQD_ASYNC_NOTIFY),
        (Sqd, Rts) => rule(Attr::STATE, Attr::CUR_STATE | path),
        (Sqd, Sqd) => rule(Attr::empty(), Attr::STATE | Attr::PKEY_INDEX | Attr::AV | path),
        (Sqe, Rts) => rule(Attr::STATE, Attr::CUR_STATE | Attr::ACCESS_FLAGS),
        _ => None,
    }
}

fn rc_rule(from: QpState, to: QpState) -> Option<Rule> {
    use QpState::*;
    let id = Attr::PKEY_INDEX.union(Attr::PORT).union(Attr::ACCESS_FLAGS);
    let path = Attr::ACCESS_FLAGS | Attr::MIN_RNR_TIMER | Attr::ALT_PATH | Attr::PATH_MIG_STATE;
    let retry = Attr::TIMEOUT | Attr::RETRY_CNT | Attr::RNR_RETRY | Attr::MAX_QP_RD_ATOMIC;
    let connect = Attr::STATE | Attr::AV | Attr::PATH_MTU | Attr::DEST_QPN | Attr::RQ_PSN;
    let responder = Attr::MAX_DEST_RD_ATOMIC | Attr::MIN_RNR_TIMER;
    // RATE-6: RC is a service that can be paced.
    let send = path | Attr::RATE_LIMIT;
    match (from, to) {
        (Reset, Init) => rule(Attr::STATE | id, Attr::empty()),
        (Init, Init) => rule(Attr::empty(), Attr::STATE | id),
        (Init, Rtr) => rule(
            connect | responder,
            Attr::PKEY_INDEX | Attr::ACCESS_FLAGS | Attr::ALT_PATH,
        ),
        (Rtr, Rts) => rule(Attr::STATE | Attr::SQ_PSN | retry, Attr::CUR_STATE | send),
        (Rts, Rts) => rule(Attr::empty(), Attr::STATE | Attr::CUR_STATE | send),
        (Rts, Sqd) => rule(Attr::STATE, Attr::EN_SQD_ASYNC_NOTIFY),
        (Sqd, Rts) => rule(Attr::STATE, Attr::CUR_STATE | path),
        (Sqd, Sqd) => {
            // QPS-19: no card of ours has CHANGE_PHY_PORT, so PORT is not taken.
            let all = Attr::AV | Attr::MAX_DEST_RD_ATOMIC | Attr::PKEY_INDEX | path | retry;
            rule(Attr::empty(), Attr::STATE | all)
        }
        _ => None,
    }
}

/// QPS-20: an initiator of XRC has what RC has for its requests.
fn initiator_rule(from: QpState, to: QpState) -> Option<Rule> {
    use QpState::*;
    let retry = Attr::TIMEOUT | Attr::RETRY_CNT | Attr::RNR_RETRY | Attr::MAX_QP_RD_ATOMIC;
    match (from, to) {
        (Rtr, Rts) => uc_rule(from, to).map(|uc| Rule {
            required: uc.required | retry,
            ..uc
        }),
        (Sqd, Sqd) => uc_rule(from, to).map(|uc| Rule {
            optional: uc.optional | retry,
            ..uc
        }),
        (Sqe, _) => None,
        _ => uc_rule(from, to),
    }
}

/// QPS-20: a target of XRC has what RC has for the peer's requests.
fn target_rule(from: QpState, to: QpState) -> Option<Rule> {
    use QpState::*;
    let path = Attr::ACCESS_FLAGS | Attr::MIN_RNR_TIMER | Attr::ALT_PATH | Attr::PATH_MIG_STATE;
    match (from, to) {
        (Rtr, Rts) => rule(Attr::STATE | Attr::SQ_PSN | Attr::TIMEOUT, Attr::CUR_STATE | path),
        (Rts, Rts) => rule(Attr::empty(), Attr::STATE | Attr::CUR_STATE | path),
        (Sqd, Sqd) => {
            let all = Attr::AV | Attr::MAX_DEST_RD_ATOMIC | Attr::PKEY_INDEX | Attr::TIMEOUT | path;
            rule(Attr::empty(), Attr::STATE | all)
        }
        _ => rc_rule(from, to),
    }
}

/// Is this modify legal? On refusal nothing may be changed.
pub fn check(service: Service, from: QpState, to: QpState, mask: Attr) -> Result<(), Refusal> {
    check_rule(rule_of(service, from, to), mask)
}

/// The same by the rule of the transition, if it exists.
pub fn check_rule(rule: Option<Rule>, mask: Attr) -> Result<(), Refusal> {
    let rule = rule.ok_or(Refusal::NoSuchTransition)?;
    let missing = rule.required.difference(mask);
    if !missing.is_empty() {
        return Err(Refusal::Missing(missing));
    }
    let foreign = mask.difference(rule.required | rule.optional);
    if !foreign.is_empty() {
        return Err(Refusal::NotTaken(foreign));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use QpState::*;

    const ALL: [QpState; 7] = [Reset, Init, Rtr, Rts, Sqd, Sqe, Err];
    const RTR_RC: Attr = Attr::STATE
        .union(Attr::AV)
        .union(Attr::PATH_MTU)
        .union(Attr::DEST_QPN)
        .union(Attr::RQ_PSN)
        .union(Attr::MAX_DEST_RD_ATOMIC)
        .union(Attr::MIN_RNR_TIMER);

    /// QPS-3: the explicit chain, and nothing else.
    #[test]
    fn only_the_transitions_of_the_table_exist() {
        let chain = [
            (Reset, Init),
            (Init, Init),
            (Init, Rtr),
            (Rtr, Rts),
            (Rts, Rts),
            (Rts, Sqd),
            (Sqd, Rts),
            (Sqd, Sqd),
        ];
        for from in ALL {
            for to in ALL {
                let want = matches!(to, Reset | Err) || chain.contains(&(from, to));
                assert_eq!(
                    rule_of(Service::Rc, from, to).is_some(),
                    want,
                    "{from:?} -> {to:?}"
                );
                let want_ud = want || (from, to) == (Sqe, Rts);
                assert_eq!(
                    rule_of(Service::Ud, from, to).is_some(),
                    want_ud,
                    "UD {from:?} -> {to:?}"
                );
            }
        }
    }

    /// QPS-T-RC, QPS-18: each missing required attribute is named, each foreign one too.
    #[test]
    fn rc_init_to_rtr_wants_exactly_its_attributes() {
        assert_eq!(check(Service::Rc, Init, Rtr, RTR_RC), Ok(()));
        for a in RTR_RC.iter() {
            assert_eq!(
                check(Service::Rc, Init, Rtr, RTR_RC - a),
                Result::Err(Refusal::Missing(a))
            );
        }
        let with = RTR_RC | Attr::PKEY_INDEX | Attr::ACCESS_FLAGS | Attr::ALT_PATH;
        assert_eq!(check(Service::Rc, Init, Rtr, with), Ok(()));
        for a in Attr::all() - with {
            assert_eq!(
                check(Service::Rc, Init, Rtr, RTR_RC | a),
                Result::Err(Refusal::NotTaken(a))
            );
        }
    }

    /// QPS-20: each side of XRC has what RC has for its own half, no more and no less.
    #[test]
    fn xrc_has_halves() {
        let responder = Attr::MAX_DEST_RD_ATOMIC | Attr::MIN_RNR_TIMER;
        let initiator = |from, to, mask| check(Service::Xrc, from, to, mask);
        let target = |from, to, mask| check_rule(rule_of_target(from, to), mask);
        assert_eq!(initiator(Init, Rtr, RTR_RC - responder), Ok(()));
        assert_eq!(
            initiator(Init, Rtr, RTR_RC),
            Result::Err(Refusal::NotTaken(responder))
        );
        assert_eq!(target(Init, Rtr, RTR_RC), Ok(()));
        assert_eq!(
            target(Init, Rtr, RTR_RC - responder),
            Result::Err(Refusal::Missing(responder))
        );
        let retry = Attr::RETRY_CNT | Attr::RNR_RETRY | Attr::MAX_QP_RD_ATOMIC;
        let rts = Attr::STATE | Attr::SQ_PSN | Attr::TIMEOUT;
        assert_eq!(initiator(Rtr, Rts, rts | retry), Ok(()));
        assert_eq!(initiator(Rtr, Rts, rts), Result::Err(Refusal::Missing(retry)));
        assert_eq!(target(Rtr, Rts, rts), Ok(()));
        assert_eq!(
            target(Rtr, Rts, rts | retry),
            Result::Err(Refusal::NotTaken(retry))
        );
        for from in ALL {
            for to in ALL {
                let rc = rule_of(Service::Rc, from, to).is_some();
                assert_eq!(
                    rule_of(Service::Xrc, from, to).is_some(),
                    rc,
                    "{from:?} -> {to:?}"
                );
                assert_eq!(rule_of_target(from, to).is_some(), rc, "{from:?} -> {to:?}");
            }
        }
    }
}
