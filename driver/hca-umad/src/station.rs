//! Ports in use: an engine with its QPs, and a thread that waits for what comes. Those who open the same port share it.
//! One lock guards everything; nobody waits for datagrams while holding it.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, MutexGuard, Once};
use std::time::{Duration, Instant};

use hca_agents::smp;
use hca_exports::table::Table;

use crate::abi::*;
use crate::engine::{Agent, Engine, Message};
use crate::errno::{Call, EINVAL, Errno, last_errno, verb};
use crate::info::{self, OpenDevice};
use crate::issm::Issm;
use crate::qp::{ManagementQp, Route, Which};

/// How long, and how often, the first function of a card is waited for.
const FUNCTION_LIMIT: Duration = Duration::from_secs(2);
const FUNCTION_PERIOD: Duration = Duration::from_millis(50);

/// Card and port.
type Key = (String, u8);

/// A port in use.
struct Station {
    // Before the device: they are of it.
    qps: [Option<ManagementQp>; 2],
    device: Option<Arc<OpenDevice>>,
    ca_name: String,
    port_num: u8,
    engine: Engine,
    /// The card has been told that a subnet manager is here.
    is_sm: bool,
    /// Written to when the thread has to look.
    wake: c_int,
    users: usize,
}

/// A port that a program has opened, by its number: an eventfd that counts what waits.
struct Opened {
    key: Key,
    waiting: VecDeque<Message>,
}

#[derive(Default)]
struct State {
    stations: BTreeMap<Key, Station>,
    opened: BTreeMap<c_int, Opened>,
    issms: BTreeMap<Key, Issm>,
}

static STATE: Table<State> = Table::new();
static START: LazyLock<Instant> = LazyLock::new(Instant::now);
static AT_EXIT: Once = Once::new();
/// The process that has opened ports.
static USER: AtomicU32 = AtomicU32::new(0);

fn lock() -> MutexGuard<'static, State> {
    STATE.lock()
}

fn now_ms() -> u64 {
    START.elapsed().as_millis() as u64
}

fn event_fd() -> Call<c_int> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE) };
    if fd < 0 { Err(last_errno()) } else { Ok(fd) }
}

fn signal(fd: c_int) {
    let one = 1u64;
    // SAFETY: eight bytes; a full counter is readable as it is.
    unsafe { libc::write(fd, (&raw const one).cast(), 8) };
}

fn clear(fd: c_int) {
    let mut count = 0u64;
    // SAFETY: room for eight bytes; the descriptor does not block.
    unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
}

impl Station {
    fn new(key: &Key) -> Call<Self> {
        let device = Some(OpenDevice::manage(&key.0)?);
        let marks = std::process::id() ^ (Instant::now().duration_since(*START).subsec_nanos() << 12);
        Ok(Self {
            qps: [None, None],
            device,
            ca_name: key.0.clone(),
            port_num: key.1,
            engine: Engine::new(key.1, marks),
            is_sm: false,
            wake: event_fd()?,
            users: 0,
        })
    }

    /// The first function of a card alone has QP0. Where this process has got another one, because the one before it
    /// was not quite gone, it tries again.
    fn open_qp(&mut self, which: Which) -> Call<()> {
        let start = Instant::now();
        while self.qps[which as usize].is_none() {
            let context = self.context()?;
            // SAFETY: the device is closed behind the QPs.
            match unsafe { ManagementQp::open(context, self.port_num, which) } {
                Ok(qp) => self.qps[which as usize] = Some(qp),
                Err(errno) => {
                    let has_others = self.qps.iter().any(Option::is_some);
                    if which == Which::Gsi || has_others || start.elapsed() > FUNCTION_LIMIT {
                        return Err(errno);
                    }
                    OpenDevice::forget(&self.ca_name);
                    self.device = None;
                    self.is_sm = false;
                    // What is closed is free for others after a moment.
                    std::thread::sleep(FUNCTION_PERIOD);
                    self.device = Some(OpenDevice::manage(&self.ca_name)?);
                }
            }
        }
        Ok(())
    }

    /// Sends what is to be sent. What cannot be sent is lost, as on the way.
    fn depart(&mut self) {
        for departure in self.engine.take_departures() {
            let mut route = departure.route;
            if departure.which == Which::Smi {
                (route.qpn, route.qkey, route.pkey_index, route.grh) = (0, 0, 0, None);
                let is_request = departure.mad[3] & 0x80 == 0;
                if departure.is_local {
                    route.lid = self.own_lid();
                } else if smp::is_directed(&departure.mad) && is_request && smp::begins_here(&departure.mad) {
                    route.lid = hca_wire::LID_PERMISSIVE;
                }
            }
            if let Some(qp) = &mut self.qps[departure.which as usize] {
                let _ = qp.send(&route, &departure.mad);
            }
        }
    }

    fn context(&self) -> Call<*mut ibv_context> {
        let device = self.device.as_ref().ok_or(Errno(libc::ENODEV))?;
        Ok(device.context())
    }

    fn own_lid(&self) -> u16 {
        let attr = self
            .context()
            .and_then(|context| info::port_attr(context, self.port_num));
        attr.map_or(0, |attr| attr.lid)
    }

    /// Tells the card whether a subnet manager is here. A function that may not say so is no manager's.
    fn tell_is_sm(&mut self, is_sm: bool) {
        if self.is_sm != is_sm
            && let Ok(context) = self.context()
            && info::set_is_sm(context, self.port_num, is_sm).is_ok()
        {
            self.is_sm = is_sm;
        }
    }

    /// Takes what has come.
    fn receive(&mut self) {
        for (which, qp) in [Which::Smi, Which::Gsi].into_iter().zip(&mut self.qps) {
            for (mad, route) in qp.iter_mut().flat_map(|qp| qp.receive().unwrap_or_default()) {
                self.engine.receive(which, route, mad, now_ms());
            }
        }
        self.engine.expire(now_ms());
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        // SAFETY: a descriptor of ours; the thread has left it when it finds no station.
        unsafe { libc::close(self.wake) };
    }
}

impl State {
    fn station(&mut self, handle: c_int) -> Call<&mut Station> {
        let opened = self.opened.get(&handle).ok_or(EINVAL)?;
        self.stations.get_mut(&opened.key).ok_or(EINVAL)
    }

    /// Input and output of a station.
    fn pump(&mut self, key: &Key) {
        let Some(station) = self.stations.get_mut(key) else {
            return;
        };
        station.depart();
        for (handle, message) in station.engine.take_arrivals() {
            if let Some(opened) = self.opened.get_mut(&handle) {
                opened.waiting.push_back(message);
                signal(handle);
            }
        }
    }
}

/// The thread of a station: ends when there is none any more.
fn work(key: Key) {
    loop {
        let (mut fds, timeout_ms) = {
            let state = lock();
            let Some(station) = state.stations.get(&key) else {
                return;
            };
            let qps = station.qps.iter().flatten().map(ManagementQp::fd);
            let issm = state.issms.get(&key).map(Issm::fd);
            let fds = qps.chain([station.wake]).chain(issm).map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            });
            let deadline = station.engine.deadline_ms();
            let left = deadline.map_or(-1, |at| at.saturating_sub(now_ms()).min(1 << 20) as c_int);
            (fds.collect::<Vec<_>>(), left)
        };
        // SAFETY: as many descriptors as are there. One that is closed meanwhile says so, and ends the wait.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) };
        let mut guard = lock();
        let state = &mut *guard;
        let Some(station) = state.stations.get_mut(&key) else {
            return;
        };
        if let Some(issm) = state.issms.get_mut(&key) {
            station.tell_is_sm(issm.is_open());
        }
        clear(station.wake);
        station.receive();
        state.pump(&key);
    }
}

/// A program that ends without closing its ports: what it has sent leaves. Whoever has the lock now is not waited for,
/// and what a forked child finds is its parent's.
extern "C" fn before_exit() {
    if USER.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    if let Some(mut state) = STATE.try_lock() {
        let stations = state.stations.values_mut();
        stations
            .flat_map(|station| &mut station.qps)
            .flatten()
            .for_each(ManagementQp::settle);
    }
}

/// umad_get_issm_path: what a program opens that is a subnet manager.
pub fn issm_path(ca_name: Option<&str>, port_num: c_int) -> Call<String> {
    let key = info::choose(ca_name, port_num)?;
    let mut state = lock();
    if !state.issms.contains_key(&key) {
        let issm = Issm::new()?;
        state.issms.insert(key.clone(), issm);
        if let Some(station) = state.stations.get(&key) {
            signal(station.wake);
        }
    }
    state.issms.get(&key).map(Issm::path).ok_or(EINVAL)
}

/// umad_open_port: its number.
pub fn open(ca_name: Option<&str>, port_num: c_int) -> Call<c_int> {
    let key = info::choose(ca_name, port_num)?;
    let mut state = lock();
    if !state.stations.contains_key(&key) {
        let station = Station::new(&key)?;
        USER.store(std::process::id(), Ordering::Relaxed);
        // Behind the libraries that the device needs, so it runs before they end.
        AT_EXIT.call_once(|| {
            // SAFETY: a function that lives as long as the process. Where no more fit, nothing is waited for.
            let _ = unsafe { libc::atexit(before_exit) };
        });
        state.stations.insert(key.clone(), station);
        let of_thread = key.clone();
        let thread = std::thread::Builder::new().name("umad".into());
        let spawned = thread.spawn(move || work(of_thread));
        spawned.map_err(|_| Errno(libc::EAGAIN))?;
    }
    let handle = event_fd()?;
    if let Some(station) = state.stations.get_mut(&key) {
        station.users += 1;
    }
    let waiting = VecDeque::new();
    state.opened.insert(handle, Opened { key, waiting });
    Ok(handle)
}

/// umad_close_port.
pub fn close(handle: c_int) -> Call<()> {
    let mut state = lock();
    let opened = state.opened.remove(&handle).ok_or(EINVAL)?;
    if let Some(station) = state.stations.get_mut(&opened.key) {
        station.engine.close(handle);
        station.users -= 1;
        signal(station.wake);
        if station.users == 0 {
            drop(state.stations.remove(&opened.key));
        }
    }
    // SAFETY: a descriptor of ours.
    unsafe { libc::close(handle) };
    Ok(())
}

/// umad_register. Who only asks may never need QP0, which this process may not have: they hear of it when they send.
pub fn register(handle: c_int, agent: Agent) -> Call<u32> {
    let mut state = lock();
    let station = state.station(handle)?;
    if agent.which() == Which::Gsi || agent.methods != 0 {
        station.open_qp(agent.which())?;
    }
    let id = station.engine.register(handle, agent)?;
    signal(station.wake);
    Ok(id)
}

/// umad_unregister.
pub fn unregister(handle: c_int, agent: u32) -> Call<()> {
    lock().station(handle)?.engine.unregister((handle, agent))
}

/// umad_send.
pub fn send(handle: c_int, agent: u32, route: Route, data: &[u8], timeout_ms: u32, retries: u32) -> Call<()> {
    let mut state = lock();
    let station = state.station(handle)?;
    let who = (handle, agent);
    let which = station.engine.qp_of(who)?;
    station.open_qp(which)?;
    if which == Which::Gsi && route.pkey_index != 0 {
        info::pkey(station.context()?, station.port_num, route.pkey_index)?;
    }
    station
        .engine
        .send(who, route, data, timeout_ms, retries, now_ms())?;
    // It has a deadline now.
    signal(station.wake);
    let key = state.opened[&handle].key.clone();
    state.pump(&key);
    Ok(())
}

/// umad_recv: `take` gets the oldest message, and says whether it has taken it.
pub fn receive<T>(handle: c_int, take: impl FnOnce(&Message) -> Result<T, T>) -> Call<T> {
    let mut state = lock();
    let opened = state.opened.get_mut(&handle).ok_or(EINVAL)?;
    let message = opened.waiting.front().ok_or(Errno(libc::EWOULDBLOCK))?;
    match take(message) {
        Ok(result) => {
            opened.waiting.pop_front();
            clear(handle);
            Ok(result)
        }
        Err(result) => Ok(result),
    }
}

/// Is it an open port?
pub fn is_open(handle: c_int) -> bool {
    lock().opened.contains_key(&handle)
}

/// What the card says of a port.
pub fn query(context: *mut ibv_context, port_num: u8) -> Call<ibv_port_attr> {
    let mut attr = ibv_port_attr::default();
    // SAFETY: an open device; the exported function writes less than the structure has.
    verb(unsafe { ibv_query_port(context, port_num, (&raw mut attr).cast()) })?;
    Ok(attr)
}
