//! Memory registration: keys (KEY-27..KEY-31, MEM-3..MEM-15). The rows of a function's keys are in its own memory,
//! where it may write what it likes: a row decides over no memory but the function's, and what is read back of one is
//! checked before it is used.

use crate::features::has;
use crate::hal::Hal;
use crate::objects::{require, require_size};
use crate::turns::{Fenced, Rest};
use crate::{Bus, CmdResult, Control, NUM_FUNCS};
use hca_abi::{
    AdminStatus, AllocMwCmd, CtxTable, DIRECT_PAGE_SHIFT, DM_BUS_HIGH, Forget, KeyTable, MAX_LOG_KEYS,
    MAX_PAGE_SHIFT, MIN_PAGE_SHIFT, ModifyMrCmd, Mpt, NULL_PAGES, QueryMrResult, RegMrCmd, SetKeyTableCmd,
    access, feature,
};
use hca_regs as reg;

/// Longest region: everything a 48-bit address space can hold.
pub(crate) const MAX_MR_BYTES: u64 = 1 << 48;
/// Zeros of a null region.
const NULL_BYTES: u64 = (NULL_PAGES as u64) << MIN_PAGE_SHIFT;
/// Pages of one region: as many as its entries can be counted in the command.
pub(crate) const MAX_PAGES: u32 = u32::MAX;
/// Keys of a function: row 0 stays empty, so that key 0 is never valid.
pub(crate) const MAX_KEYS: u32 = (1 << MAX_LOG_KEYS) - 1;
/// Rights that regions and QPs have here.
pub(crate) const GRANTED: u32 = access::LOCAL_WRITE
    | access::REMOTE_WRITE
    | access::REMOTE_READ
    | access::REMOTE_ATOMIC
    | access::MW_BIND
    | access::FLUSH_GLOBAL;
/// What may be asked for and nobody gets: all writes of this card keep their order.
pub(crate) const IGNORED: u32 = access::RELAXED_ORDERING;

/// Where in the mailbox lines of page lists and rows of keys go: above the admin command and completion. Each function
/// has its place for a row, which outlives a restart, in the last KiB.
const LINE_AREA: u32 = 1024;
const SEEN_AREA: u32 = 1088;
const ROW_AREAS: u32 = 3072;
const _: () = assert!(ROW_AREAS as usize + NUM_FUNCS * Mpt::BYTES <= reg::MAILBOX_BYTES as usize);
/// Looks at a row until what was written is there: at the first, but for a host that lets reads pass writes.
const MAX_LOOKS: u32 = 1000;

/// A function's key table.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    /// Bus address of row 0.
    base: u64,
    log_size: u8,
    valid: bool,
    /// Tag of a row's first key; another one when the function has been reset, so that keys of before do not work.
    first_tag: u8,
}

impl Keys {
    pub const fn new() -> Self {
        Self {
            base: 0,
            log_size: 0,
            valid: false,
            first_tag: 1,
        }
    }

    /// None, and the first one that comes has this tag, or the one after 0.
    pub fn beginning_with(tag: u8) -> Self {
        Self {
            first_tag: tag.max(1),
            ..Self::new()
        }
    }

    fn addr(&self, row: u32) -> CmdResult<u64> {
        if self.valid && row != 0 && row >> self.log_size == 0 {
            Ok(self.base.wrapping_add(u64::from(row) * Mpt::BYTES as u64))
        } else {
            Err((AdminStatus::BadHandle, row))
        }
    }

    /// KEY-30: another tag for each use of a row, so that a stale key never works again.
    fn next_tag(&self, last: u8) -> u8 {
        if last == 0 {
            self.first_tag
        } else {
            last.wrapping_add(1).max(1)
        }
    }
}

/// A row of a key that goes to host memory; the row itself is in the mailbox.
#[derive(Clone, Copy)]
pub(crate) struct Store {
    /// Bus address.
    addr: u64,
    /// Of the key.
    index: u32,
    /// The card may know a page list of it.
    has_pages: bool,
    /// Of the region or window.
    pd: u32,
    then: Then,
}

/// What follows when a row is there.
#[derive(Clone, Copy)]
enum Then {
    /// The key of a region is told.
    TellRegion(u32),
    /// That of a window is.
    TellWindow(u32),
    /// It was of this domain before.
    Move(u32),
    /// It is no region and no window any more.
    Free,
}

/// What follows of the command.
pub(crate) enum Stored {
    /// The answer is the key of a region.
    Region(u32),
    /// It is that of a window.
    Window(u32),
    Fence(Fenced),
}

/// Index of a key: which function's, which row.
fn index_of(func: u8, row: u32) -> u32 {
    u32::from(func) << MAX_LOG_KEYS | row
}

impl Control {
    /// The row of a region of the function, in the mailbox, too: its number, its bus address and what is in its first
    /// bytes.
    fn own_mr<B: Bus>(
        &self,
        hal: &mut Hal<B>,
        func: u8,
        lkey: u32,
        bytes: usize,
    ) -> CmdResult<(u32, u64, Mpt)> {
        let refusal = (AdminStatus::BadHandle, lkey);
        let row = (lkey >> 8) & ((1 << MAX_LOG_KEYS) - 1);
        require_handle(index_of(func, row) == lkey >> 8, refusal)?;
        let addr = self.keys[usize::from(func)].addr(row).map_err(|_| refusal)?;
        let mpt = read_row(hal, func, addr, bytes)?;
        require_handle(
            (mpt.is_fast() || (mpt.valid() && mpt.tag() == lkey as u8))
                && !mpt.is_window()
                && mpt.func() == func,
            refusal,
        )?;
        self.own_pd(func, mpt.pd()).map_err(|_| refusal)?;
        Ok((row, addr, mpt))
    }

    /// Rows that the function has already are in the new table, too.
    pub(crate) fn set_key_table<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &SetKeyTableCmd,
    ) -> CmdResult<Rest> {
        let keys = self.keys[usize::from(func)];
        let log_size = cmd.log_size();
        require_size(u32::from(log_size) <= MAX_LOG_KEYS, log_size.into())?;
        require_size(!keys.valid || log_size >= keys.log_size, log_size.into())?;
        require(cmd.base().is_multiple_of(64), 0)?;
        hal.probe_ring(func, cmd.base(), (Mpt::BYTES as u32) << log_size)?;
        self.keys[usize::from(func)] = Keys {
            base: cmd.base(),
            log_size,
            valid: true,
            ..keys
        };
        let mut row = KeyTable::new();
        row.set_valid(true);
        row.set_base(cmd.base());
        row.set_log_size(log_size);
        hal.ctx_write(CtxTable::KeyTable, func.into(), row.as_bytes());
        // A window that was bound while the driver copied its row is read again.
        forget(hal, index_of(func, 0), false, true);
        // Behind the fence nobody reads the one before.
        Ok(Rest::Fence(Fenced::Nothing))
    }

    /// The function has no keys any more. True: it had some, and a fence has to follow.
    pub(crate) fn drop_key_table<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) -> bool {
        let keys = &mut self.keys[usize::from(func)];
        let had = keys.valid;
        if had {
            keys.valid = false;
            keys.first_tag = keys.first_tag.wrapping_add(1).max(1);
            hal.ctx_write(CtxTable::KeyTable, func.into(), KeyTable::new().as_bytes());
            forget(hal, index_of(func, 0), false, true);
        }
        had
    }

    /// The page list stays the driver's: hardware reads it when it needs a page.
    pub(crate) fn reg_mr<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, cmd: &RegMrCmd) -> CmdResult<Rest> {
        self.own_pd(func, cmd.pd())?;
        let rights = cmd.access();
        check_rights(rights, cmd.start())?;
        if cmd.is_fast() && !has(feature::KEY_WR) {
            return Err((AdminStatus::Unsupported, cmd.row()));
        }
        // V-80: of device memory a region may have no bytes at all; nothing is in it.
        let direct = u32::from(cmd.page_shift()) == DIRECT_PAGE_SHIFT;
        let may_be_empty = direct && cmd.iova() >> 48 == u64::from(DM_BUS_HIGH);
        require_size(
            (cmd.length() >= 1 || may_be_empty) && cmd.length() <= MAX_MR_BYTES,
            0,
        )?;
        require_size(cmd.start().checked_add(cmd.length()).is_some(), 0)?;
        require_size(!direct || cmd.iova().checked_add(cmd.length()).is_some(), 0)?;
        if cmd.is_null() {
            require(direct && rights == access::LOCAL_WRITE, rights)?;
            require_size(
                cmd.length() == NULL_BYTES && cmd.iova().is_multiple_of(1 << MIN_PAGE_SHIFT),
                0,
            )?;
        }
        if !direct {
            check_list(hal, func, cmd)?;
        }
        let (row, keys) = (cmd.row(), self.keys[usize::from(func)]);
        let addr = keys.addr(row).map_err(|_| (AdminStatus::BadParam, row))?;
        let mut mpt = read_row(hal, func, addr, HEAD_BYTES)?;
        require_free(&mpt, row)?;
        mpt.set_tag(keys.next_tag(mpt.tag()));
        mpt.set_valid(!cmd.is_fast());
        mpt.set_is_fast(cmd.is_fast());
        mpt.set_is_null(cmd.is_null());
        mpt.set_access(rights & GRANTED);
        mpt.set_func(func);
        mpt.set_pd(cmd.pd());
        mpt.set_page_shift(cmd.page_shift());
        mpt.set_start(cmd.start());
        mpt.set_length(cmd.length());
        mpt.set_iova(if direct { cmd.iova() } else { cmd.page_list_addr() });
        let below = (1 << u32::from(cmd.page_shift())) - 1;
        mpt.set_list_offset(if direct { 0 } else { cmd.start() & below });
        mpt.set_max_pages(cmd.num_pages());
        let key = index_of(func, row) << 8 | u32::from(mpt.tag());
        let then = Then::TellRegion(key);
        Ok(Rest::Store(prepare(hal, func, row, addr, &mpt, !direct, then)))
    }

    /// V-131: other rights, another domain, the same keys. After the fence no access of the old rights is under way.
    pub(crate) fn modify_mr<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &ModifyMrCmd,
    ) -> CmdResult<Rest> {
        self.own_pd(func, cmd.pd())?;
        let (row, addr, mut mpt) = self.own_mr(hal, func, cmd.lkey(), ROW_BYTES)?;
        check_rights(cmd.access(), mpt.start())?;
        let has_null_rights = cmd.access() == access::LOCAL_WRITE;
        require(!mpt.is_null() || has_null_rights, cmd.access())?;
        let then = Then::Move(mpt.pd());
        mpt.set_pd(cmd.pd());
        mpt.set_access(cmd.access() & GRANTED);
        Ok(Rest::Store(prepare(hal, func, row, addr, &mpt, false, then)))
    }

    pub(crate) fn dereg_mr<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, lkey: u32) -> CmdResult<Rest> {
        let (row, addr, mut mpt) = self.own_mr(hal, func, lkey, HEAD_BYTES)?;
        mpt.set_valid(false);
        mpt.set_is_fast(false);
        mpt.set_is_null(false);
        Ok(Rest::Store(prepare(
            hal,
            func,
            row,
            addr,
            &mpt,
            false,
            Then::Free,
        )))
    }

    /// V-135: a window, which is not bound: hardware does that. Its row is not valid until then.
    pub(crate) fn alloc_mw<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &AllocMwCmd,
    ) -> CmdResult<Rest> {
        self.own_pd(func, cmd.pd())?;
        let (row, keys) = (cmd.row(), self.keys[usize::from(func)]);
        let addr = keys.addr(row).map_err(|_| (AdminStatus::BadParam, row))?;
        let mut mpt = read_row(hal, func, addr, HEAD_BYTES)?;
        require_free(&mpt, row)?;
        mpt.set_tag(keys.next_tag(mpt.tag()));
        mpt.set_is_window(true);
        mpt.set_is_null(false);
        mpt.set_is_type_2(cmd.is_type_2());
        mpt.set_func(func);
        mpt.set_pd(cmd.pd());
        let then = Then::TellWindow(index_of(func, row) << 8 | u32::from(mpt.tag()));
        Ok(Rest::Store(prepare(hal, func, row, addr, &mpt, false, then)))
    }

    /// V-138. After the fence no access through it is under way, and no operation of a QP on it.
    pub(crate) fn dealloc_mw<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, rkey: u32) -> CmdResult<Rest> {
        let refusal = (AdminStatus::BadHandle, rkey);
        let row = (rkey >> 8) & ((1 << MAX_LOG_KEYS) - 1);
        require_handle(index_of(func, row) == rkey >> 8, refusal)?;
        let addr = self.keys[usize::from(func)].addr(row).map_err(|_| refusal)?;
        let mut mpt = read_row(hal, func, addr, HEAD_BYTES)?;
        require_handle(mpt.is_window() && mpt.func() == func, refusal)?;
        self.own_pd(func, mpt.pd()).map_err(|_| refusal)?;
        mpt.set_valid(false);
        mpt.set_is_window(false);
        mpt.set_is_type_2(false);
        Ok(Rest::Store(prepare(
            hal,
            func,
            row,
            addr,
            &mpt,
            false,
            Then::Free,
        )))
    }

    /// Writes a row, and does what follows. All of it may be done again.
    pub(crate) fn store_row<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        store: Store,
    ) -> CmdResult<Stored> {
        write_row(hal, func, store.addr)?;
        forget(hal, store.index, store.has_pages, false);
        let users = &mut self.pds[store.pd as usize];
        Ok(match store.then {
            Then::TellRegion(key) => {
                *users += 1;
                Stored::Region(key)
            }
            Then::TellWindow(key) => {
                *users += 1;
                Stored::Window(key)
            }
            Then::Move(before) => {
                *users += 1;
                self.free_mr(before);
                Stored::Fence(Fenced::Nothing)
            }
            // Accesses that passed the key check before may still be under way; after the fence none is.
            Then::Free => Stored::Fence(Fenced::FreeMr(store.pd)),
        })
    }

    /// A region or window of the domain is gone, after a fence.
    pub(crate) fn free_mr(&mut self, pd: u32) {
        let users = &mut self.pds[pd as usize];
        *users = users.saturating_sub(1);
    }

    pub(crate) fn query_mr<B: Bus>(&self, hal: &mut Hal<B>, func: u8, lkey: u32) -> CmdResult<QueryMrResult> {
        let (_, _, mpt) = self.own_mr(hal, func, lkey, ROW_BYTES)?;
        let mut out = QueryMrResult::new();
        out.set_lkey(lkey);
        out.set_rkey(lkey);
        out.set_pd(mpt.pd());
        out.set_access(mpt.access());
        out.set_start(mpt.start());
        out.set_length(mpt.length());
        out.set_page_shift(mpt.page_shift());
        Ok(out)
    }
}

fn require_handle(ok: bool, refusal: (AdminStatus, u32)) -> CmdResult {
    if ok { Ok(()) } else { Err(refusal) }
}

/// A row that no region and no window has.
fn require_free(mpt: &Mpt, row: u32) -> CmdResult {
    if mpt.valid() || mpt.is_window() || mpt.is_fast() {
        Err((AdminStatus::InUse, row))
    } else {
        Ok(())
    }
}

/// The words of a row that mean something: up to the numbers of pages.
const ROW_BYTES: usize = 56;
/// Those of them that say what it is, and whose: all that counts when it comes or goes. The others are in the mailbox,
/// too, and stay as they are.
const HEAD_BYTES: usize = 8;

fn row_area(func: u8) -> u32 {
    ROW_AREAS + u32::from(func) * Mpt::BYTES as u32
}

/// Brings a row into the mailbox: its first bytes.
fn read_row<B: Bus>(hal: &mut Hal<B>, func: u8, addr: u64, bytes: usize) -> CmdResult<Mpt> {
    hal.dma_from_host(func, addr, row_area(func), Mpt::BYTES as u32)
        .map_err(|_| (AdminStatus::DmaError, 0))?;
    let mut mpt = Mpt::new();
    hal.mailbox_read(row_area(func), &mut mpt.0[..bytes]);
    Ok(mpt)
}

/// Puts what changes of a row into the mailbox; nothing of the card has changed yet.
fn prepare<B: Bus>(
    hal: &mut Hal<B>,
    func: u8,
    row: u32,
    addr: u64,
    mpt: &Mpt,
    has_pages: bool,
    then: Then,
) -> Store {
    let bytes = match then {
        Then::TellRegion(_) => ROW_BYTES,
        _ => HEAD_BYTES,
    };
    hal.mailbox_write(row_area(func), &mpt.0[..bytes]);
    Store {
        addr,
        index: index_of(func, row),
        has_pages,
        pd: mpt.pd(),
        then,
    }
}

/// Writes the row in the mailbox, and waits until whoever reads it finds it so.
fn write_row<B: Bus>(hal: &mut Hal<B>, func: u8, addr: u64) -> CmdResult {
    let failed = |_| (AdminStatus::DmaError, 0);
    hal.dma_to_host(func, addr, row_area(func), Mpt::BYTES as u32)
        .map_err(failed)?;
    let (mut wanted, mut seen) = ([0; 8], [0; 8]);
    hal.mailbox_read(row_area(func), &mut wanted);
    for _ in 0..MAX_LOOKS {
        hal.dma_from_host(func, addr, SEEN_AREA, Mpt::BYTES as u32)
            .map_err(failed)?;
        hal.mailbox_read(SEEN_AREA, &mut seen);
        if seen == wanted {
            break;
        }
    }
    Ok(())
}

/// What hardware keeps of a key is read again the next time.
fn forget<B: Bus>(hal: &mut Hal<B>, index: u32, pages: bool, all: bool) {
    let mut row = Forget::new();
    row.set_pages(pages);
    row.set_all(all);
    hal.ctx_write(CtxTable::Forget, index, row.as_bytes());
}

/// Rights of a region whose addresses begin with `start`.
fn check_rights(rights: u32, start: u64) -> CmdResult {
    if rights & access::ON_DEMAND != 0 {
        return Err((AdminStatus::Unsupported, rights));
    }
    require(rights & !(GRANTED | IGNORED | access::ZERO_BASED) == 0, rights)?;
    // MEM-10: a region whose first address is 0 is zero-based; hardware need not know.
    require(rights & access::ZERO_BASED == 0 || start == 0, rights)?;
    // MEM-8: who lets others write must be allowed to write itself.
    let remote_write = rights & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
    require(!remote_write || rights & access::LOCAL_WRITE != 0, rights)
}

/// The list has as many entries as the region touches pages, and its first one can be read. Of the others hardware
/// finds out when it needs them.
fn check_list<B: Bus>(hal: &mut Hal<B>, func: u8, cmd: &RegMrCmd) -> CmdResult {
    let shift = u32::from(cmd.page_shift());
    require(({ MIN_PAGE_SHIFT }..={ MAX_PAGE_SHIFT }).contains(&shift), shift)?;
    let first = cmd.start() >> shift;
    let last = (cmd.start() + cmd.length() - 1) >> shift;
    let pages = last - first + 1;
    require_size(pages <= u64::from(MAX_PAGES), 0)?;
    require_size(pages == u64::from(cmd.num_pages()), cmd.num_pages())?;
    let list = cmd.page_list_addr();
    require(
        list.is_multiple_of(64) && list.checked_add(pages * 8).is_some(),
        0,
    )?;
    hal.dma_from_host(func, list, LINE_AREA, 64)
        .map_err(|_| (AdminStatus::DmaError, 0))
}
