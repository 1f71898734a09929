//! One end of a connection in a process of its own, for `tests/process`: `hca-peer [--courier] SOCKET`.
//! With `--courier` it shares no memory with the simulator.
//!
//! It says `ready` and what its peer must know, then answers each line of standard input with one line; the commands
//! are the functions of [`Peer`]. It ends with its standard input.
#![deny(unsafe_code)]

use hca_dev::{Device, DmaBuf};
use hca_system_tests::absent::Absent;
use hca_system_tests::courier::Courier;
use hca_system_tests::{Rng, path};
use hca_verbs::{
    Access, ConnectOptions, Context, Cq, CqOptions, Error, Mr, MrOptions, Mtu, OpenOptions, Pd, PeerInfo,
    QpOptions, RawQp, RecvWr, Result, SendFlags, SendOp, SendWr, WorkCompletion, WrData, connect_raw,
    peer_info,
};
use hca_vfio_user::VfioUserDevice;
use std::io::{self, Write};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Nothing here takes so long, whatever else the processor has to do.
const PATIENCE_NS: u64 = 60_000_000_000;
const BUFFER_BYTES: usize = 1 << 20;
/// Work requests in flight while flooding.
const IN_FLIGHT: u64 = 16;
const FLOOD_MESSAGE_BYTES: u32 = 64 << 10;

type Dev = Rc<dyn Device>;

struct Peer {
    dev: Dev,
    context: Context<Dev>,
    pd: Pd<Dev>,
    cq: Cq<Dev>,
    qp: RawQp<Dev>,
    buf: DmaBuf,
    mr: Mr<Dev>,
    /// Address and key of the other end's memory.
    remote: (u64, u32),
    /// Others that were only taken.
    taken: Vec<RawQp<Dev>>,
    /// Memory that never comes, and what it is registered with.
    absent: Option<(Mr<Dev>, Absent)>,
}

impl Peer {
    fn open(socket: &Path, courier: bool) -> Result<Self> {
        let dev: Dev = if courier {
            Rc::new(Courier::connect(socket)?)
        } else {
            Rc::new(VfioUserDevice::connect(socket)?)
        };
        let options = OpenOptions {
            ready_timeout_ns: PATIENCE_NS,
            command_timeout_ns: PATIENCE_NS,
            ..OpenOptions::default()
        };
        let context = Context::open_with(dev.clone(), &options)?;
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(&CqOptions::new(256))?;
        let qp = pd.create_raw_qp(&QpOptions::new(&cq, &cq))?;
        let buf = dev.alloc_dma(BUFFER_BYTES)?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let mr = pd.reg_mr(&buf, access)?;
        Ok(Self {
            dev,
            context,
            pd,
            cq,
            qp,
            buf,
            mr,
            remote: (0, 0),
            taken: Vec::new(),
            absent: None,
        })
    }

    /// What [`Peer::connect`] of the other end takes: QPN, LID, MAC, GID, address, R_Key.
    fn ready(&self) -> Result<String> {
        let info = peer_info(&self.qp, &options(), 0)?;
        let mac = u64::from_be_bytes([&[0; 2], &info.mac[..]].concat().try_into().unwrap_or_default());
        let gid = u128::from_be_bytes(info.gid.unwrap_or_default());
        let (addr, rkey) = (self.mr.addr(), self.mr.rkey());
        Ok(format!(
            "ready {} {} {mac} {gid} {addr} {rkey}",
            info.qp_num, info.lid
        ))
    }

    fn connect(&mut self, words: &[u128]) -> Result<String> {
        let [qp_num, lid, mac, gid, addr, rkey] = *numbers(words)?;
        let mut mac_bytes = [0; 6];
        mac_bytes.copy_from_slice(&mac.to_be_bytes()[10..]);
        let peer = PeerInfo {
            qp_num: qp_num as u32,
            psn: 0,
            gid: Some(gid.to_be_bytes()),
            lid: lid as u16,
            mac: mac_bytes,
            rd_atomic: options().rd_atomic,
            selective_repeat: false,
        };
        connect_raw(&mut self.qp, &options(), 0, &peer)?;
        self.remote = (addr as u64, rkey as u32);
        Ok("connected".into())
    }

    /// OFFSET LEN SEED
    fn fill(&mut self, words: &[u128]) -> Result<String> {
        let [offset, len, seed] = *numbers(words)?;
        self.buf.write_bytes(
            offset as usize,
            &Rng::new(seed as u64, "process").bytes(len as usize),
        );
        Ok("filled".into())
    }

    /// OFFSET LEN: FNV-1a of the bytes.
    fn digest(&mut self, words: &[u128]) -> Result<String> {
        let [offset, len] = *numbers(words)?;
        let mut bytes = vec![0; len as usize];
        self.buf.read_bytes(offset as usize, &mut bytes);
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        Ok(format!(
            "digest {:016x}",
            bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
        ))
    }

    /// OFFSET LEN
    fn recv(&mut self, words: &[u128]) -> Result<String> {
        let [offset, len] = *numbers(words)?;
        let sges = [self.mr.sge(offset as u64, len as u32)];
        self.qp.post_recv(&[RecvWr {
            wr_id: 0,
            sges: &sges,
        }])?;
        Ok("posted".into())
    }

    fn operation(&self, name: &str, remote_offset: u64) -> SendOp {
        let (remote_addr, rkey) = (self.remote.0 + remote_offset, self.remote.1);
        match name {
            "write" => SendOp::RdmaWrite { remote_addr, rkey },
            "read" => SendOp::RdmaRead { remote_addr, rkey },
            _ => SendOp::Send,
        }
    }

    fn post(&mut self, op: SendOp, offset: u64, len: u32) -> Result<()> {
        let sges = [self.mr.sge(offset, len)];
        let data = WrData::Sges(&sges);
        self.qp.post_send(&[SendWr {
            wr_id: 0,
            op,
            flags: SendFlags::SIGNALED,
            data,
        }])?;
        Ok(())
    }

    /// OFFSET REMOTE_OFFSET LEN, and waits for the completion.
    fn transfer(&mut self, name: &str, words: &[u128]) -> Result<String> {
        let [offset, remote_offset, len] = *numbers(words)?;
        self.post(
            self.operation(name, remote_offset as u64),
            offset as u64,
            len as u32,
        )?;
        self.wait()
    }

    fn wait_one(&self) -> Result<WorkCompletion> {
        let mut wc = [WorkCompletion::default()];
        self.cq.poll_all(&mut wc, self.dev.now_ns() + PATIENCE_NS)?;
        Ok(wc[0])
    }

    fn wait(&mut self) -> Result<String> {
        let wc = self.wait_one()?;
        Ok(format!("{:?} {:?} {}", wc.opcode, wc.status, wc.byte_len))
    }

    /// Transfers until one fails; says so when it is under way. The answer is the status of the first that failed and
    /// how many were flushed behind it.
    fn flood(&mut self, name: &str) -> Result<String> {
        let op = self.operation(name, 0);
        for _ in 0..IN_FLIGHT {
            self.post(op, 0, FLOOD_MESSAGE_BYTES)?;
        }
        let mut wc = self.wait_one()?;
        say("flooding");
        while wc.is_ok() {
            self.post(op, 0, FLOOD_MESSAGE_BYTES)?;
            wc = self.wait_one()?;
        }
        let mut flushed = 0;
        for _ in 1..IN_FLIGHT {
            flushed += u64::from(self.wait_one()?.status == hca_verbs::WcStatus::WrFlushErr);
        }
        Ok(format!("{:?} flushed {flushed}", wc.status))
    }

    /// COUNT WRITEs of 64 KiB, from and to the start of the buffers.
    fn burst(&mut self, words: &[u128]) -> Result<String> {
        let [count] = *numbers(words)?;
        let op = self.operation("write", 0);
        for posted in 0..count as u64 + IN_FLIGHT {
            if posted >= IN_FLIGHT {
                let wc = self.wait_one()?;
                if !wc.is_ok() {
                    return Ok(format!("{:?}", wc.status));
                }
            }
            if posted < count as u64 {
                self.post(op, 0, FLOOD_MESSAGE_BYTES)?;
            }
        }
        Ok("burst done".into())
    }

    /// Takes all QPs that the card has left: how many this process has then, and how many there can be.
    fn qps(&mut self) -> Result<String> {
        let mut taken = Vec::new();
        while let Ok(qp) = self.pd.create_raw_qp(&QpOptions::new(&self.cq, &self.cq)) {
            taken.push(qp);
        }
        let count = taken.len() + 1;
        self.taken = taken;
        Ok(format!(
            "qps {count} of {}",
            self.context.query_device()?.max_qp()
        ))
    }

    /// Fills all eventfds, so that they block, and asks for an interrupt.
    fn deaf(&mut self) -> Result<String> {
        for vector in 0..self.dev.info().num_vectors {
            if let Some(eventfd) = self.dev.irq_fd(vector) {
                fill(eventfd).map_err(|e| Error::Invalid(e.to_string()))?;
            }
        }
        self.cq.req_notify(false)?;
        Ok("deaf".into())
    }

    /// NAME: starts a WRITE from, or a READ into, memory that never comes; or says that there is none here.
    fn absent(&mut self, name: &str) -> Result<String> {
        let absent = match Absent::new(BUFFER_BYTES) {
            Ok(absent) => absent,
            Err(error) => return Ok(format!("impossible: {error}")),
        };
        let options = MrOptions::new(Access::LOCAL_WRITE);
        let mr = self.pd.reg_user_mr(absent.memory(), &options)?;
        let sges = [mr.sge(0, 64)];
        let data = WrData::Sges(&sges);
        self.qp.post_send(&[SendWr {
            wr_id: 0,
            op: self.operation(name, 0),
            flags: SendFlags::SIGNALED,
            data,
        }])?;
        self.absent = Some((mr, absent));
        Ok("absent".into())
    }

    fn command(&mut self, line: &str) -> Result<String> {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let invalid = |_| Error::Invalid(format!("'{line}' has a word that is no number"));
        let words = words
            .map(|word| word.parse::<u128>().map_err(invalid))
            .collect::<Result<Vec<_>>>();
        match (name, words) {
            ("flood", _) => self.flood(line.split_ascii_whitespace().nth(1).unwrap_or("write")),
            ("absent", _) => self.absent(line.split_ascii_whitespace().nth(1).unwrap_or("write")),
            (_, Err(error)) => Err(error),
            ("connect", Ok(words)) => self.connect(&words),
            ("fill", Ok(words)) => self.fill(&words),
            ("digest", Ok(words)) => self.digest(&words),
            ("recv", Ok(words)) => self.recv(&words),
            ("write" | "read" | "send", Ok(words)) => self.transfer(name, &words),
            ("wait", Ok(_)) => self.wait(),
            ("burst", Ok(words)) => self.burst(&words),
            ("deaf", Ok(_)) => self.deaf(),
            ("qps", Ok(_)) => self.qps(),
            _ => Err(Error::Invalid(format!("'{line}' is no command"))),
        }
    }
}

/// The largest count that an eventfd holds; whoever adds to it from now on waits.
fn fill(eventfd: BorrowedFd<'_>) -> io::Result<()> {
    let mut file = std::fs::File::from(eventfd.try_clone_to_owned()?);
    #[allow(unsafe_code)]
    // SAFETY: a plain system call on a live descriptor.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_RDWR) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    file.write_all(&(u64::MAX - 1).to_ne_bytes())
}

fn options() -> ConnectOptions {
    path(Mtu::Bytes1024)
}

fn numbers<const N: usize>(words: &[u128]) -> Result<&[u128; N]> {
    let wrong = |_| Error::Invalid(format!("{} arguments given, {N} wanted", words.len()));
    words.try_into().map_err(wrong)
}

/// A parent that is gone ends us by the end of our input.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn serve(socket: &Path, courier: bool) -> Result<()> {
    let mut peer = Peer::open(socket, courier)?;
    say(&peer.ready()?);
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        io::stdin()
            .lines()
            .map_while(io::Result::ok)
            .try_for_each(|line| sender.send(line))
    });
    loop {
        // A courier's memory is reached only while it looks.
        let limit = if courier { Duration::ZERO } else { Duration::MAX };
        match lines.recv_timeout(limit) {
            Ok(line) => say(&peer.command(&line)?),
            Err(RecvTimeoutError::Timeout) => peer.dev.progress(),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn main() -> ExitCode {
    let mut args: Vec<_> = std::env::args_os().skip(1).collect();
    let courier = args.first().is_some_and(|arg| arg == "--courier");
    let (Some(socket), true) = (args.pop(), args.len() == usize::from(courier)) else {
        eprintln!("usage: hca-peer [--courier] SOCKET");
        return ExitCode::from(2);
    };
    match serve(Path::new(&socket), courier) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hca-peer: {error}");
            ExitCode::FAILURE
        }
    }
}
