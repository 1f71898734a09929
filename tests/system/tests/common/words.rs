//! Clients of one or more functions that change the same words by atomics.

use std::collections::{BTreeMap, BTreeSet};

use hca_dev::DmaBuf;
use hca_system_tests::{Dev, Node, Place, Rig, RigConfig, Rng, connect};
use hca_verbs::{
    Access, ConnectOptions, Mr, QpCap, RawQp, SendFlags, SendOp, SendWr, WcOpcode, WorkCompletion, WrData,
};

use super::{BASES, LIMIT_NS};

/// Atomics that a client has posted at a time.
pub const DEPTH: usize = 32;
/// Between two words: so they share lines, and blocks of 256 bytes, as counters do.
const STRIDE: u64 = 24;

/// What was asked of a word.
#[derive(Clone, Copy, Debug)]
struct Asked {
    word: usize,
    /// Compare and swap: with what, for what. Otherwise fetch and add of one.
    cas: Option<(u64, u64)>,
    slot: usize,
}

struct Client {
    /// Function of card 0, or node 1 itself.
    node: usize,
    qp: RawQp<Dev>,
    _peer: RawQp<Dev>,
    results: DmaBuf,
    mr: Mr<Dev>,
    under_way: Vec<Asked>,
    free: Vec<usize>,
    left: usize,
    /// What it last saw in each word.
    seen: Vec<u64>,
}

/// What the clients do.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    pub clients: usize,
    pub atomics: usize,
    pub words: usize,
    /// Functions of card 0 that take part.
    pub functions: usize,
    /// Some clients are at home where the words are.
    pub loops: bool,
}

pub struct Words {
    pub rig: Rig,
    /// Other functions of card 0.
    others: Vec<Node>,
    clients: Vec<Client>,
    memory: DmaBuf,
    mr: Mr<Dev>,
    storm: Storm,
    rng: Rng,
    /// Originals that fetch-and-adds have had, by word.
    added: Vec<BTreeSet<u64>>,
    /// By word and original: what compare-and-swaps have put in its place; what others have found.
    swapped: Vec<BTreeMap<u64, u64>>,
    found: Vec<BTreeSet<u64>>,
    unique: u64,
}

impl Words {
    pub fn new(config: &RigConfig, options: &ConnectOptions, storm: Storm) -> Self {
        let rig = Rig::new(config).unwrap();
        let memory = rig.nodes[1].alloc(storm.words * STRIDE as usize + 64).unwrap();
        memory.fill(0, memory.len_bytes(), 0);
        let rights = Access::LOCAL_WRITE | Access::REMOTE_ATOMIC;
        let place = Place::whole(&memory, rights, BASES[1]);
        let mr = rig.nodes[1].register(&memory, place).unwrap();
        let others: Vec<_> = (1..storm.functions as u8)
            .map(|func| Node::open(rig.sim.device(rig.cards[0], func).unwrap(), 1024).unwrap())
            .collect();
        let mut words = Self {
            rng: Rng::new(config.seed, "atomics"),
            added: vec![BTreeSet::new(); storm.words],
            swapped: vec![BTreeMap::new(); storm.words],
            found: vec![BTreeSet::new(); storm.words],
            unique: 1 << 40,
            clients: Vec::new(),
            rig,
            others,
            memory,
            mr,
            storm,
        };
        for number in 0..storm.clients {
            let client = words.client(number, options);
            words.clients.push(client);
        }
        words
    }

    fn node(&self, index: usize) -> &Node {
        match index {
            0 | 1 => &self.rig.nodes[index],
            other => &self.others[other - 2],
        }
    }

    fn client(&self, number: usize, options: &ConnectOptions) -> Client {
        let index = match number % (self.storm.functions + usize::from(self.storm.loops)) {
            0 => 0,
            at if at == self.storm.functions => 1,
            other => other + 1,
        };
        let cap = QpCap {
            max_send_wr: DEPTH as u32,
            ..QpCap::default()
        };
        let node = self.node(index);
        let mut pair = [node, &self.rig.nodes[1]].map(|node| node.create_qp(cap, false).unwrap());
        // Each where its PSNs run over soon.
        let psn = 0xff_ffff - 7 * number as u32;
        let options = ConnectOptions {
            psns: (psn, psn ^ 0x5555),
            ..*options
        };
        connect(&mut pair, &options).unwrap();
        let [qp, peer] = pair;
        let results = node.alloc(DEPTH * 8).unwrap();
        let place = Place::whole(&results, Access::LOCAL_WRITE, BASES[0]);
        Client {
            node: index,
            qp,
            _peer: peer,
            mr: node.register(&results, place).unwrap(),
            results,
            under_way: Vec::new(),
            free: (0..DEPTH).collect(),
            left: self.storm.atomics,
            seen: vec![0; self.storm.words],
        }
    }

    fn read(memory: &DmaBuf, offset: usize) -> u64 {
        memory.load_u64(offset)
    }

    /// Half of the words are counters, half are swapped.
    fn post(&mut self, number: usize) {
        let word = self.rng.below(self.storm.words as u32) as usize;
        let client = &mut self.clients[number];
        let Some(slot) = client.free.pop() else { return };
        let remote_addr = self.mr.addr() + word as u64 * STRIDE;
        let rkey = self.mr.rkey();
        let cas = (word % 2 == 1).then(|| {
            self.unique += 1;
            (client.seen[word], self.unique)
        });
        let op = match cas {
            Some((compare, swap)) => SendOp::AtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare,
                swap,
            },
            None => SendOp::AtomicFetchAndAdd {
                remote_addr,
                rkey,
                add: 1,
            },
        };
        let sges = [client.mr.sge(slot as u64 * 8, 8)];
        let wr = SendWr {
            wr_id: (number * DEPTH + slot) as u64,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        };
        client.qp.post_send(&[wr]).unwrap();
        client.left -= 1;
        client.under_way.push(Asked { word, cas, slot });
    }

    fn completed(&mut self, wc: &WorkCompletion) {
        assert!(wc.is_ok(), "{wc:?}");
        let (number, slot) = (wc.wr_id as usize / DEPTH, wc.wr_id as usize % DEPTH);
        let client = &mut self.clients[number];
        let asked = client.under_way.remove(0);
        assert_eq!(asked.slot, slot, "completions are in order");
        client.free.push(slot);
        let original = Self::read(&client.results, slot * 8);
        client.seen[asked.word] = original;
        let opcode = match asked.cas {
            None => {
                assert!(self.added[asked.word].insert(original), "{original} came twice");
                WcOpcode::FetchAdd
            }
            Some((compare, swap)) if compare == original => {
                client.seen[asked.word] = swap;
                let before = self.swapped[asked.word].insert(original, swap);
                assert_eq!(before, None, "{original:#x} was swapped twice");
                WcOpcode::CompSwap
            }
            Some(_) => {
                self.found[asked.word].insert(original);
                WcOpcode::CompSwap
            }
        };
        assert_eq!((wc.opcode, wc.byte_len), (opcode, 8));
    }

    /// Until all have done their part.
    pub fn run(&mut self) {
        let mut end_ns = self.rig.now_ns() + LIMIT_NS;
        while self
            .clients
            .iter()
            .any(|client| client.left + client.under_way.len() > 0)
        {
            for number in 0..self.clients.len() {
                while self.clients[number].left > 0 && !self.clients[number].free.is_empty() {
                    self.post(number);
                }
            }
            for index in 0..self.storm.functions + 1 {
                while let Some(wc) = self.node(index).poll_ready().unwrap() {
                    self.completed(&wc);
                    end_ns = self.rig.now_ns() + LIMIT_NS;
                }
            }
            assert!(self.rig.now_ns() < end_ns, "no completion within {LIMIT_NS} ns");
            self.rig.run(200);
        }
    }

    /// Each word is what exactly those operations make of it, each done once.
    pub fn check(&self) {
        for word in 0..self.storm.words {
            let now = Self::read(&self.memory, word * STRIDE as usize);
            if word % 2 == 0 {
                let count = self.added[word].len() as u64;
                assert_eq!(now, count, "word {word}");
                assert!(self.added[word].iter().copied().eq(0..count), "word {word}");
                continue;
            }
            let mut value = 0;
            let mut passed = BTreeSet::from([0]);
            while let Some(next) = self.swapped[word].get(&value) {
                value = *next;
                passed.insert(value);
            }
            assert_eq!(value, now, "word {word}");
            assert_eq!(passed.len(), self.swapped[word].len() + 1, "word {word}");
            assert!(self.found[word].is_subset(&passed), "word {word}");
        }
        let posted: usize = self.storm.clients * self.storm.atomics;
        let added: usize = self.added.iter().map(BTreeSet::len).sum();
        assert!(added > 0 && added <= posted);
    }
}
