//! All that the library knows, behind one lock: cards, their ports, and the program's ids.

use std::collections::HashMap;
use std::ffi::c_int;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::process;
use std::ptr::null_mut;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use hca_cm::message::{Rep, Req};
use hca_cm::{CommunicationId, Config, Engine};
use hca_exports::table::Table;

use crate::abi::*;
use crate::address::{Gid, gid_of, ip_of};
use crate::channel::{Channel, Unacked};
use crate::clock::Clock;
use crate::errno::{Call, EINVAL, last_errno, made, verb};
use crate::gsi::{Gsi, Route};
use crate::registry;
use crate::registry::Lease;
use crate::sa::{Client, Manager};

const MAX_CONNECTIONS: usize = 4096;

/// A card.
pub struct Device {
    pub context: *mut ibv_context,
    pub guid: u64,
    /// Of ids whose program names none.
    pub pd: *mut ibv_pd,
    /// Of SRQs and QPs of XRC whose program names none.
    pub xrcd: *mut ibv_xrcd,
    /// Held as long as this process lives: its peers look at it.
    pub _alive: File,
    /// READs and atomics that a QP can have outstanding.
    pub max_rd_atomic: u8,
    /// What it takes to acknowledge, at most: 4.096 us << n (REL-15).
    pub ack_delay: u8,
}

/// A port of a card, with the connections through it.
pub struct Port {
    pub device: usize,
    pub num: u8,
    pub is_ethernet: bool,
    pub lid: u16,
    pub mtu: u8,
    pub pkey: u16,
    /// Index and GID.
    pub gids: Vec<(u8, Gid)>,
    pub engine: Engine<Route>,
    /// What the engine and the questions below live by.
    pub clock: Clock,
    /// What the subnet's administration is asked.
    pub sa: Client,
    pub gsi: Option<Gsi>,
    /// Wakes the thread of the port.
    pub wake: c_int,
    /// Connections whose other side is a process of a card here, and what that has said of itself.
    pub peers: HashMap<CommunicationId, String>,
    /// When they are looked at again, by the host's clock, by which processes end.
    pub next_look: Option<Instant>,
    /// Held by the process that says no for all.
    pub speaker: Option<File>,
}

/// How an id's packets go.
#[derive(Clone, Debug, Default)]
pub struct Path {
    pub route: Route,
    pub sgid: Gid,
    pub dgid: Gid,
    pub slid: u16,
    pub mtu: u8,
    /// Codes of rate and packet life time, if the subnet's administration has said them.
    pub rate: u8,
    pub life_time: u8,
}

/// What an id is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Idle,
    AddressResolved,
    RouteResolved,
    Listening,
    /// Asked, or was asked.
    Connecting,
    Connected,
    Disconnected,
}

/// An id.
pub struct Id {
    pub raw: *mut rdma_cm_id,
    pub channel: Arc<Channel>,
    /// The channel is the id's own: calls wait for what they begin (CM-2).
    pub is_sync: bool,
    pub phase: Phase,
    pub port: Option<usize>,
    pub src: Option<SocketAddr>,
    pub dst: Option<SocketAddr>,
    pub lease: Option<Lease>,
    pub shares_port: bool,
    pub path: Path,
    pub connection: Option<CommunicationId>,
    /// Lookup of a service of datagrams, or the question of another one.
    pub lookup: Option<u32>,
    pub is_passive: bool,
    pub req: Option<Box<Req>>,
    pub rep: Option<Box<Rep>>,
    pub unacked: Arc<Unacked>,
    /// Requests of a listener that wait for their answer, and how many may.
    pub waiting: u32,
    pub backlog: u32,
    pub listener: usize,
    /// What every id that a listener hands out gets (rdma_create_ep).
    pub endpoint: Option<(*mut ibv_pd, ibv_qp_init_attr)>,
    pub owns_cqs: bool,
    /// Its SRQ is of XRC: receive completions are the SRQ's, and its CQ goes with it.
    pub has_xrc_srq: bool,
    /// Its QP fails when the other side disconnects: who waits for it hears of completions alone.
    pub is_rsocket: bool,
    pub traffic_class: u8,
    pub ack_timeout: Option<u8>,
    /// Address, GID, LID, and whether its QP receives.
    pub groups: Vec<(IpAddr, Gid, u16, bool)>,
    pub path_rec: Box<ibv_sa_path_rec>,
}

/// Everything.
#[derive(Default)]
pub struct Cm {
    pub devices: Vec<Device>,
    pub ports: Vec<Port>,
    pub ids: HashMap<usize, Id>,
    pub connections: HashMap<(usize, CommunicationId), usize>,
    pub lookups: HashMap<(usize, u32), usize>,
    pub listeners: HashMap<(usize, u64), usize>,
    /// QPs of datagrams whose number everybody is told, and the address that they are asked for by, if not all.
    pub datagrams: HashMap<(usize, u64), (u32, Option<IpAddr>)>,
    /// The process that all of this is of, once there is anything.
    owner: Option<u32>,
    /// All cards are open.
    is_open: bool,
    prefix: Option<(u8, File)>,
}

// SAFETY: pointers to C objects are used under the lock, or are the program's to use.
unsafe impl Send for Cm {}

static CM: Table<Cm> = Table::new();

/// All of it. A child begins with nothing: what it has inherited is its parent's, whose threads it has not got.
pub fn cm() -> MutexGuard<'static, Cm> {
    let mut cm = CM.lock();
    if cm.owner.is_some_and(|owner| owner != process::id()) {
        std::mem::forget(std::mem::take(&mut *cm));
    }
    cm
}

/// Does something with an id that there is.
pub fn with<T>(id: *mut rdma_cm_id, f: impl FnOnce(&mut Cm, usize) -> Call<T>) -> Call<T> {
    let mut cm = cm();
    if !cm.ids.contains_key(&(id as usize)) {
        return Err(EINVAL);
    }
    f(&mut cm, id as usize)
}

impl Cm {
    /// An id that there is.
    pub fn id(&mut self, id: usize) -> Call<&mut Id> {
        self.ids.get_mut(&id).ok_or(EINVAL)
    }

    /// The port that an id is bound to.
    pub fn port_of(&self, id: usize) -> Call<usize> {
        self.ids.get(&id).and_then(|id| id.port).ok_or(EINVAL)
    }

    /// GUIDs of a port's card, or of all cards.
    pub fn guids(&self, port: Option<usize>) -> Vec<u64> {
        match port {
            Some(port) => vec![self.devices[self.ports[port].device].guid],
            None => self.devices.iter().map(|device| device.guid).collect(),
        }
    }

    /// Opens every card that there is, once.
    pub fn open_devices(&mut self) -> Call<()> {
        if self.is_open {
            return Ok(());
        }
        self.owner = Some(process::id());
        if self.prefix.is_none() {
            self.prefix = Some(registry::take_prefix()?);
        }
        let mut count = 0;
        // SAFETY: the list is freed behind its last use.
        let opened = unsafe {
            let list = made(ibv_get_device_list(&mut count))?;
            let opened = (0..count as usize).try_for_each(|at| match self.open_device(*list.add(at)) {
                Err(errno) if errno.is_shortage() => Err(errno),
                // A card that is busy is not one of ours.
                _ => Ok(()),
            });
            ibv_free_device_list(list);
            opened
        };
        match opened {
            Ok(()) => self.is_open = true,
            Err(_) => self.close_devices(),
        }
        opened
    }

    /// What is short today may be there tomorrow: then all is opened anew. There are no ids on the devices yet.
    fn close_devices(&mut self) {
        for port in self.ports.drain(..) {
            // SAFETY: nobody else closes it.
            unsafe { libc::close(port.wake) };
        }
        for device in self.devices.drain(..) {
            // SAFETY: nothing was made of it.
            unsafe { ibv_close_device(device.context) };
        }
    }

    /// # Safety
    /// `device` is of a list that is not freed yet.
    unsafe fn open_device(&mut self, device: *mut ibv_device) -> Call<()> {
        // SAFETY: the caller's promise; each object lives until the process ends.
        unsafe {
            let context = made(ibv_open_device(device))?;
            let mut attr = ibv_device_attr::default();
            verb(ibv_query_device(context, &mut attr)).inspect_err(|_| {
                ibv_close_device(context);
            })?;
            let index = self.devices.len();
            let guid = u64::from_be(attr.node_guid);
            let prefix = self.prefix.as_ref().map_or(0, |(prefix, _)| *prefix);
            let alive = registry::announce(guid, prefix).inspect_err(|_| {
                ibv_close_device(context);
            })?;
            self.devices.push(Device {
                context,
                guid,
                _alive: alive,
                pd: null_mut(),
                xrcd: null_mut(),
                max_rd_atomic: attr.max_qp_rd_atom.clamp(0, 255) as u8,
                ack_delay: attr.local_ca_ack_delay,
            });
            for num in 1..=attr.phys_port_cnt {
                self.add_port(index, num)?;
            }
        }
        Ok(())
    }

    unsafe fn add_port(&mut self, device: usize, num: u8) -> Call<()> {
        let Device { context, guid, .. } = self.devices[device];
        let mut attr = ibv_port_attr::default();
        let mut pkey = 0;
        let mut gids = Vec::new();
        // SAFETY: an open device.
        unsafe {
            verb(ibv_query_port(context, num, (&raw mut attr).cast()))?;
            ibv_query_pkey(context, num, 0, &mut pkey);
            for index in 0..attr.gid_tbl_len {
                let mut gid = ibv_gid::default();
                if ibv_query_gid(context, num, index, &mut gid) == 0 && gid.raw != [0; 16] {
                    gids.push((index as u8, gid.raw));
                }
            }
        }
        // SAFETY: no pointers.
        let wake = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if wake < 0 {
            return Err(last_errno());
        }
        let id_prefix = self.prefix.as_ref().map_or(0, |(prefix, _)| *prefix);
        // Numbers of a new process shall not be those of the one before.
        let seed = u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.ports.push(Port {
            device,
            num,
            is_ethernet: attr.link_layer == IBV_LINK_LAYER_ETHERNET as u8,
            lid: attr.lid,
            mtu: attr.active_mtu as u8,
            pkey: u16::from_be(pkey),
            gids,
            engine: Engine::new(Config {
                ca_guid: guid,
                id_prefix,
                seed,
                max_connections: MAX_CONNECTIONS,
            }),
            clock: Clock::default(),
            // Threads of one process share a QP1: the process tells its questions from those of others.
            sa: Client::new(seed.rotate_left(32)),
            gsi: None,
            wake,
            peers: HashMap::new(),
            next_look: None,
            speaker: None,
        });
        Ok(())
    }

    /// The subnet manager of a port, if it is of InfiniBand and there is one that is not the simulator. What it has set
    /// is known from now on.
    pub fn manager(&mut self, port: usize) -> Option<Manager> {
        let entry = self.ports.get_mut(port).filter(|port| !port.is_ethernet)?;
        let context = self.devices[entry.device].context;
        let mut attr = ibv_port_attr::default();
        let mut pkey = 0;
        let mut gid = ibv_gid::default();
        // SAFETY: an open device.
        let code = unsafe {
            ibv_query_pkey(context, entry.num, 0, &mut pkey)
                | ibv_query_gid(context, entry.num, 0, &mut gid)
                | ibv_query_port(context, entry.num, (&raw mut attr).cast())
        };
        if code != 0 {
            return None;
        }
        (entry.lid, entry.mtu, entry.pkey) = (attr.lid, attr.active_mtu as u8, u16::from_be(pkey));
        if let Some((0, first)) = entry.gids.first_mut() {
            // SAFETY: any bytes are a GID.
            *first = unsafe { gid.raw };
        }
        let (lid, sl) = (attr.sm_lid, attr.sm_sl);
        (lid != 0).then_some(Manager { lid, sl })
    }

    /// The port that has an address.
    pub fn port_with(&self, ip: IpAddr) -> Option<usize> {
        self.ports.iter().position(|port| port.gid_index(ip).is_some())
    }

    /// The default protection domain of a port's card.
    pub fn default_pd(&mut self, port: usize) -> Call<*mut ibv_pd> {
        let device = &mut self.devices[self.ports[port].device];
        if device.pd.is_null() {
            // SAFETY: an open device.
            device.pd = made(unsafe { ibv_alloc_pd(device.context) })?;
        }
        Ok(device.pd)
    }

    /// Binds an id to a port: the program sees its card.
    pub fn attach(&mut self, id: usize, port: usize) -> Call<()> {
        let pd = self.default_pd(port)?;
        let (device, num) = (&self.devices[self.ports[port].device], self.ports[port].num);
        let (context, pkey) = (device.context, self.ports[port].pkey);
        let entry = self.id(id)?;
        entry.port = Some(port);
        // SAFETY: a live id.
        unsafe {
            let raw = entry.raw;
            (*raw).verbs = context;
            (*raw).port_num = num;
            if (*raw).pd.is_null() {
                (*raw).pd = pd;
            }
            (*raw).route.addr.addr.ibaddr.pkey = pkey.to_be();
        }
        Ok(())
    }
}

impl Port {
    /// The engine, and what time it is for it.
    pub fn timed(&mut self) -> (u64, &mut Engine<Route>) {
        (self.clock.now_ns(), &mut self.engine)
    }

    /// Index of the GID that an address is.
    pub fn gid_index(&self, ip: IpAddr) -> Option<u8> {
        let gid = gid_of(ip);
        self.gids
            .iter()
            .find(|(_, own)| *own == gid)
            .map(|(index, _)| *index)
    }

    /// Index of a GID.
    pub fn index_of(&self, gid: &Gid) -> Option<u8> {
        self.gids
            .iter()
            .find(|(_, own)| own == gid)
            .map(|(index, _)| *index)
    }

    /// The port's addresses.
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.gids.iter().map(|(_, gid)| ip_of(gid))
    }

    /// Has the thread look at what has changed.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: a live buffer of eight bytes.
        unsafe { libc::write(self.wake, one.as_ptr().cast(), one.len()) };
    }
}

impl Id {
    /// The service that its port is.
    pub fn service_id(&self, port: u16) -> u64 {
        // SAFETY: a live id.
        hca_cm::ip::service_id(unsafe { (*self.raw).ps } as u16, port)
    }

    /// Of datagrams?
    pub fn is_ud(&self) -> bool {
        // SAFETY: a live id.
        unsafe { (*self.raw).qp_type == IBV_QPT_UD }
    }
}
