//! Stands between a store and its server, and can lose the answer to a commit: the server has done it, the connection
//! ends, and the store cannot know.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What a server says of a commit that it has done: the tag of a `CommandComplete` message.
const COMMITTED: &[u8] = b"COMMIT\0";

/// Passes everything on, both ways, until it is told to lose an answer. Ends with the process.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    loss: Arc<Loss>,
}

#[derive(Debug, Default)]
struct Loss {
    wanted: AtomicBool,
    happened: AtomicU32,
}

impl Proxy {
    /// Begins to pass on to a server.
    pub(crate) fn start(server: (String, u16)) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let loss = Arc::<Loss>::default();
        let shared = Arc::clone(&loss);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a client");
                let upstream = TcpStream::connect((server.0.as_str(), server.1)).expect("the server");
                let (from_client, to_client) = (client.try_clone().expect("a copy"), client);
                let (from_server, to_server) = (upstream.try_clone().expect("a copy"), upstream);
                std::thread::spawn(move || pass_on(from_client, to_server, &Loss::default()));
                let loss = Arc::clone(&shared);
                std::thread::spawn(move || pass_on(from_server, to_client, &loss));
            }
        });
        Self { port, loss }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Loses the answer to the next commit, and the connection with it.
    pub(crate) fn lose_an_answer(&self) {
        self.loss.wanted.store(true, Ordering::SeqCst);
    }

    /// How many answers were lost.
    pub(crate) fn lost(&self) -> u32 {
        self.loss.happened.load(Ordering::SeqCst)
    }
}

/// Passes on until one side has ended, then ends both.
fn pass_on(mut from: TcpStream, mut to: TcpStream, loss: &Loss) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let bytes = &buffer[..length];
        let committed = bytes.windows(COMMITTED.len()).any(|part| part == COMMITTED);
        if committed && loss.wanted.swap(false, Ordering::SeqCst) {
            loss.happened.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    // It fails when the other side has done it.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
