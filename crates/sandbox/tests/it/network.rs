//! Who can be reached.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self, UnixListener};
use std::path::PathBuf;

use crate::host::{Host, each, marker};

const NONE: [&str; 0] = [];

/// What listens outside.
struct Outside {
    tcp: TcpListener,
    udp: UdpSocket,
    /// In a folder that the command may write.
    sockets: Vec<(PathBuf, UnixListener)>,
    name: String,
    _abstract: UnixListener,
}

impl Outside {
    fn open(host: Host) -> (Host, Self) {
        let folder = host.shared_folder("sockets");
        let sockets = ["operator.sock", "agent.sock", "bus"].map(|name| {
            let path = folder.join(name);
            let listener = UnixListener::bind(&path).unwrap();
            let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(&path, all).unwrap();
            (path, listener)
        });
        let name = marker();
        let address = net::SocketAddr::from_abstract_name(&name).unwrap();
        let outside = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            sockets: sockets.into(),
            name,
            _abstract: UnixListener::bind_addr(&address).unwrap(),
        };
        (host.option("--write", folder), outside)
    }

    fn tcp(&self) -> String {
        self.tcp.local_addr().unwrap().to_string()
    }

    fn udp(&self) -> String {
        self.udp.local_addr().unwrap().to_string()
    }

    /// Nobody reaches these, whatever the profile.
    fn no_unix_socket(&self, host: &Host) {
        let mut paths: Vec<PathBuf> = self.sockets.iter().map(|(path, _)| path.clone()).collect();
        paths.push("/run/dbus/system_bus_socket".into());
        paths.push("/var/run/docker.sock".into());
        host.held("unix-socket", paths);
        host.held("abstract-socket", [&self.name]);
        host.held("sockets", NONE);
    }
}

#[test]
fn without_a_network_there_are_no_sockets() {
    each(|host| {
        let (host, outside) = Outside::open(host);
        let how = host.held("tcp", [&outside.tcp(), "1.1.1.1:53", "[::1]:1"]);
        assert_eq!(how.matches("not permitted").count(), 3, "{how}");
        let how = host.held("udp", [outside.udp()]);
        assert!(how.contains("not permitted"), "{how}");
        outside.no_unix_socket(&host);
    });
}

#[test]
fn a_loopback_of_its_own_is_not_the_host_s() {
    each(|host| {
        let (host, outside) = Outside::open(host);
        let host = host.option("--network", "loopback");
        host.held("own-loopback", NONE);
        let how = host.held("tcp", [&outside.tcp(), "1.1.1.1:53"]);
        assert!(
            how.contains("refused") && how.contains("unreachable"),
            "{how}"
        );
        host.held("udp", [outside.udp()]);
        outside.no_unix_socket(&host);
    });
}

#[test]
fn with_all_of_the_network_there_are_still_no_unix_sockets() {
    each(|host| {
        let (host, outside) = Outside::open(host);
        let host = host.option("--network", "all");
        host.possible("tcp", [outside.tcp()]);
        outside.tcp.accept().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (_, from): (_, SocketAddr) = outside.udp.recv_from(&mut [0]).unwrap();
                outside.udp.send_to(b"!", from).unwrap();
            });
            host.possible("udp", [outside.udp()]);
        });
        outside.no_unix_socket(&host);
    });
}
