use super::*;

fn plan() -> Plan {
    Plan {
        confinement: Some(Confinement {
            identity: Identity::Mapped { uid: 7, gid: 8 },
            network: Network::Loopback,
            mounts: vec![
                Mount::Bind {
                    path: "/usr".into(),
                    kind: Kind::Folder,
                    writable: false,
                },
                Mount::Link {
                    at: "/bin".into(),
                    to: "/usr/bin".into(),
                },
                Mount::Hide {
                    path: "/usr/share".into(),
                    kind: Kind::File,
                },
            ],
            limits: Limits {
                output_bytes: u64::MAX,
                wall_time: Duration::MAX,
                ..Limits::default()
            },
            memory: MemoryLevel::Tree,
            landlock: 4,
        }),
        program: Some("sh".into()),
        args: vec!["-c".into(), String::new().into()],
        env: vec![("A".into(), "b=c".into())],
        cwd: "/tmp".into(),
        terminal: true,
        wall_time: Duration::MAX,
    }
}

#[test]
fn a_plan_arrives_as_it_was_sent() {
    let mut sent = plan();
    assert_eq!(Plan::decode(&sent.encode()).unwrap(), sent);
    let confinement = sent.confinement.as_mut().unwrap();
    confinement.identity = Identity::Dropped { uid: 9, gid: 10 };
    confinement.network = Network::All;
    confinement.memory = MemoryLevel::Process;
    assert_eq!(Plan::decode(&sent.encode()).unwrap(), sent);
    sent.confinement = None;
    sent.program = None;
    assert_eq!(Plan::decode(&sent.encode()).unwrap(), sent);
}

#[test]
fn the_ground_arrives_as_it_was_sent() {
    let mut sent = Ground {
        mapped: Some((7, 8)),
        own_network: true,
        memory: MemoryLevel::Tree,
        cgroup: Some("/group".into()),
    };
    let bytes = Ground::encode(Some(&sent));
    assert_eq!(Ground::decode(&bytes).unwrap().as_ref(), Some(&sent));
    for length in 0..bytes.len() {
        let cut = bytes.get(..length).unwrap();
        assert!(Ground::decode(cut).is_err(), "{length}");
    }
    sent = Ground {
        mapped: None,
        own_network: false,
        memory: MemoryLevel::Process,
        cgroup: None,
    };
    let bytes = Ground::encode(Some(&sent));
    assert_eq!(Ground::decode(&bytes).unwrap(), Some(sent));
    assert_eq!(Ground::decode(&Ground::encode(None)).unwrap(), None);
}

#[test]
fn a_plan_that_is_cut_is_refused() {
    let bytes = plan().encode();
    for length in 0..bytes.len() {
        let cut = bytes.get(..length).unwrap();
        assert!(Plan::decode(cut).is_err(), "{length}");
    }
}
