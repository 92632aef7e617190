//! A DNS server on loopback that answers as it was told, over UDP and TCP.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test's server that cannot work must fail the test at once"
)]

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use hickory_proto::{
    op::{Message, MessageType, OpCode, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{A, AAAA, CNAME, SRV},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinSet,
};

/// Bytes of an answer over UDP; more is truncated and asked for again over TCP.
const UDP_BYTES: usize = 1_232;

/// The two kinds of address records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// A.
    V4,
    /// AAAA.
    V6,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Records with these addresses, in this order, TTL 0.
    Addresses(Vec<IpAddr>),
    /// An alias, and the addresses of what it stands for.
    Alias(String, Vec<IpAddr>),
    /// The name exists and has no such record.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// The server failed.
    ServFail,
    /// The server does not want to.
    Refused,
    /// A referral to another server, which is no answer.
    Referral,
    /// Nothing comes back.
    Silence,
    /// These records, whatever was asked for.
    Records(Vec<Entry>),
    /// A cut-off answer with these addresses in it, over TCP as well.
    Truncated(Vec<IpAddr>),
}

/// A record as it stands in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Whose record it is, without the dot of the root.
    pub name: String,
    /// Seconds.
    pub ttl: u32,
    /// Its class.
    pub class: Class,
    /// What it says.
    pub data: Data,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// A or AAAA.
    Address(IpAddr),
    /// CNAME.
    Alias(String),
    /// SRV, on port 443.
    Service(String),
}

/// The class of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// IN, which is what everybody asks for.
    Internet,
    /// CH, which nobody does.
    Chaos,
}

impl Entry {
    /// An address of this name, with TTL 0.
    pub fn address(name: &str, address: &str) -> Self {
        Self::internet(name, Data::Address(address.parse().expect("an address")))
    }

    /// An alias, with TTL 0.
    pub fn alias(name: &str, target: &str) -> Self {
        Self::internet(name, Data::Alias(target.to_owned()))
    }

    /// A service, with TTL 0.
    pub fn service(name: &str, target: &str) -> Self {
        Self::internet(name, Data::Service(target.to_owned()))
    }

    /// The same record with another TTL.
    #[must_use]
    pub fn with_ttl(self, ttl: u32) -> Self {
        Self { ttl, ..self }
    }

    /// The same record in another class.
    #[must_use]
    pub fn in_class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    fn internet(name: &str, data: Data) -> Self {
        Self {
            name: name.to_owned(),
            ttl: 0,
            class: Class::Internet,
            data,
        }
    }

    fn record(&self) -> Record {
        let data = match &self.data {
            Data::Address(IpAddr::V4(v4)) => RData::A(A(*v4)),
            Data::Address(IpAddr::V6(v6)) => RData::AAAA(AAAA(*v6)),
            Data::Alias(target) => RData::CNAME(CNAME(read_name(target))),
            Data::Service(target) => RData::SRV(SRV::new(0, 0, 443, read_name(target))),
        };
        let mut record = Record::from_rdata(read_name(&self.name), self.ttl, data);
        record.dns_class = match self.class {
            Class::Internet => DNSClass::IN,
            Class::Chaos => DNSClass::CH,
        };
        record
    }
}

impl Answer {
    /// These addresses.
    pub fn addresses(addresses: &[&str]) -> Self {
        Self::Addresses(
            addresses
                .iter()
                .map(|text| text.parse().expect("an address"))
                .collect(),
        )
    }
}

/// The server. A name nobody scripted does not exist; a scripted name has no data for the other family. It stops when dropped.
#[derive(Debug)]
pub struct ScriptedDns {
    address: SocketAddr,
    script: Arc<Script>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Script {
    answers: Mutex<HashMap<(String, Family), VecDeque<Answer>>>,
    queries: Mutex<Vec<(String, Family)>>,
}

impl ScriptedDns {
    /// A server on a free port of 127.0.0.1.
    pub async fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// A server at this address, for instance inside a network namespace. Port 0 picks a free one.
    pub async fn start_at(address: SocketAddr) -> Self {
        let (udp, tcp) = bind(address).await;
        let address = udp.local_addr().expect("a bound socket");
        let script = Arc::new(Script::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_udp(udp, Arc::clone(&script)));
        tasks.spawn(serve_tcp(tcp, Arc::clone(&script)));
        Self {
            address,
            script,
            _tasks: tasks,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Says what to answer, query by query. The last answer stays.
    pub fn script(&self, name: &str, family: Family, answers: impl IntoIterator<Item = Answer>) {
        self.script
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((name.to_owned(), family), answers.into_iter().collect());
    }

    /// One name with these addresses, each under its family.
    pub fn host(&self, name: &str, addresses: &[&str]) {
        let (v6, v4): (Vec<&str>, Vec<&str>) =
            addresses.iter().partition(|address| address.contains(':'));
        for (family, addresses) in [(Family::V4, v4), (Family::V6, v6)] {
            if !addresses.is_empty() {
                self.script(name, family, [Answer::addresses(&addresses)]);
            }
        }
    }

    /// What was asked so far, in lower case and without the dot of the root.
    pub fn queries(&self) -> Vec<(String, Family)> {
        self.script
            .queries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn bind(at: SocketAddr) -> (UdpSocket, TcpListener) {
    loop {
        let tcp = TcpListener::bind(at).await.expect("a TCP port to bind");
        let address = tcp.local_addr().expect("a bound socket");
        match UdpSocket::bind(address).await {
            Ok(udp) => return (udp, tcp),
            // The same number may be taken for UDP; another may be free.
            Err(_taken) if at.port() == 0 => {}
            Err(problem) => panic!("no UDP port at {address}: {problem}"),
        }
    }
}

async fn serve_udp(socket: UdpSocket, script: Arc<Script>) {
    let mut buffer = [0; 4_096];
    loop {
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let Some(answer) = script.answer(&buffer[..length]) else {
            continue;
        };
        let bytes = encode(&answer);
        let bytes = if bytes.len() > UDP_BYTES {
            encode(&answer.truncate())
        } else {
            bytes
        };
        // The resolver may have given up; that is its business.
        socket.send_to(&bytes, peer).await.ok();
    }
}

async fn serve_tcp(listener: TcpListener, script: Arc<Script>) {
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _peer)) = listener.accept().await {
            connections.spawn(serve_stream(stream, Arc::clone(&script)));
        }
    }
}

async fn serve_stream(mut stream: TcpStream, script: Arc<Script>) {
    while let Ok(length) = stream.read_u16().await {
        let mut query = vec![0; usize::from(length)];
        if stream.read_exact(&mut query).await.is_err() {
            return;
        }
        let Some(answer) = script.answer(&query) else {
            continue;
        };
        let bytes = encode(&answer);
        let length = u16::try_from(bytes.len()).expect("an answer that fits");
        if stream.write_u16(length).await.is_err() || stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

fn encode(message: &Message) -> Vec<u8> {
    message.to_vec().expect("a message that can be written")
}

impl Script {
    /// The answer to a query; None to stay silent.
    fn answer(&self, query: &[u8]) -> Option<Message> {
        let query = Message::from_vec(query).ok()?;
        let question = query.queries.first()?.clone();
        let name = question.name().to_lowercase().to_ascii();
        let name = name.strip_suffix('.').unwrap_or(&name).to_owned();
        let family = if question.query_type() == RecordType::A {
            Some(Family::V4)
        } else if question.query_type() == RecordType::AAAA {
            Some(Family::V6)
        } else {
            None
        };
        let answer = family.map_or(Answer::NoData, |family| {
            self.queries
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((name.clone(), family));
            self.next(&name, family)
        });
        let mut message = Message::new(query.metadata.id, MessageType::Response, OpCode::Query);
        message.metadata.recursion_desired = query.metadata.recursion_desired;
        message.metadata.recursion_available = true;
        message.add_query(question.clone());
        match answer {
            Answer::Silence => return None,
            Answer::NoData => {}
            Answer::NxDomain => message.metadata.response_code = ResponseCode::NXDomain,
            Answer::ServFail => message.metadata.response_code = ResponseCode::ServFail,
            Answer::Refused => message.metadata.response_code = ResponseCode::Refused,
            Answer::Referral => {
                let server = hickory_proto::rr::rdata::NS(read_name("ns.elsewhere.test"));
                message.add_authority(Record::from_rdata(
                    question.name().clone(),
                    0,
                    RData::NS(server),
                ));
            }
            Answer::Addresses(addresses) => {
                add_addresses(&mut message, question.name(), &addresses);
            }
            Answer::Records(entries) => {
                message.add_answers(entries.iter().map(Entry::record));
            }
            Answer::Truncated(addresses) => {
                message.metadata.truncation = true;
                add_addresses(&mut message, question.name(), &addresses);
            }
            Answer::Alias(alias, addresses) => {
                let alias = read_name(&alias);
                message.add_answer(Record::from_rdata(
                    question.name().clone(),
                    0,
                    RData::CNAME(CNAME(alias.clone())),
                ));
                add_addresses(&mut message, &alias, &addresses);
            }
        }
        Some(message)
    }

    fn next(&self, name: &str, family: Family) -> Answer {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = [Family::V4, Family::V6]
            .into_iter()
            .any(|family| answers.contains_key(&(name.to_owned(), family)));
        match answers.get_mut(&(name.to_owned(), family)) {
            Some(sequence) if sequence.len() > 1 => sequence.pop_front(),
            Some(sequence) => sequence.front().cloned(),
            None if is_known => Some(Answer::NoData),
            None => Some(Answer::NxDomain),
        }
        .unwrap_or(Answer::NoData)
    }
}

fn add_addresses(message: &mut Message, name: &Name, addresses: &[IpAddr]) {
    for address in addresses {
        let data = match address {
            IpAddr::V4(v4) => RData::A(A(*v4)),
            IpAddr::V6(v6) => RData::AAAA(AAAA(*v6)),
        };
        message.add_answer(Record::from_rdata(name.clone(), 0, data));
    }
}

fn read_name(text: &str) -> Name {
    Name::from_ascii(format!("{text}.")).expect("a name")
}
