//! The authority of one user for nodes on one machine. It can vouch for loopback names and addresses, and for nothing else.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base::Durability;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, date_time_ymd,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::{Certificate, TlsError, provider};

/// The development CA, in a folder that only its user can open.
#[derive(Debug)]
pub struct DevelopmentCa {
    folder: PathBuf,
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca.key";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const CA_LIFE: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// Made anew at every start of a node.
const LEAF_LIFE: Duration = Duration::from_secs(730 * 24 * 60 * 60);

impl DevelopmentCa {
    /// Opens the CA of this folder, or makes one there.
    ///
    /// # Errors
    /// If the folder cannot be used, others can open it, or what is in it is no CA.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let folder = folder.into();
        let wrong = |problem: String| TlsError::Development {
            path: folder.clone(),
            problem,
        };
        if !folder.join(CERTIFICATE).exists() {
            create(&folder).map_err(|error| wrong(error.to_string()))?;
        }
        let mode = fs::metadata(&folder).map_err(|error| wrong(error.to_string()))?;
        if mode.mode() & 0o077 != 0 {
            return Err(wrong(format!(
                "others can open it; `chmod 700 {}`, or remove it to have a new one made",
                folder.display()
            )));
        }
        let remove = "; remove the folder to have a new one made";
        let pem = fs::read_to_string(folder.join(KEY));
        let pem = pem.map_err(|error| wrong(format!("{KEY}: {error}{remove}")))?;
        let key =
            KeyPair::from_pem(&pem).map_err(|error| wrong(format!("{KEY}: {error}{remove}")))?;
        let certificate = CertificateDer::from_pem_file(folder.join(CERTIFICATE))
            .map_err(|error| wrong(format!("{CERTIFICATE}: {error}{remove}")))?;
        Ok(Self {
            folder,
            certificate,
            key,
        })
    }

    /// The file with its certificate, for other programs to trust.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.join(CERTIFICATE)
    }

    /// Its certificate.
    #[must_use]
    pub const fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// A fresh certificate for `localhost` and its addresses, with a key that is never on disk.
    ///
    /// # Errors
    /// If none can be made.
    pub fn issue(&self) -> Result<Certificate, TlsError> {
        let wrong = |problem: String| TlsError::Development {
            path: self.folder.clone(),
            problem,
        };
        let failed = |error: rcgen::Error| wrong(error.to_string());
        let names = ["localhost", "127.0.0.1", "::1"].map(String::from);
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name = named("Frith development node");
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        valid_for(&mut params, LEAF_LIFE);
        let key = KeyPair::generate().map_err(failed)?;
        // The issuer's name and key are all that a certificate takes of it.
        let issuer = Issuer::new(authority(), &self.key);
        let leaf = params.signed_by(&key, &issuer).map_err(failed)?;
        let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let chain = vec![leaf.der().clone()];
        let key = CertifiedKey::from_der(chain, secret, &provider())?;
        Ok(Certificate::development(key))
    }
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("Frith development CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![
            GeneralSubtree::DnsName("localhost".into()),
            GeneralSubtree::IpAddress(CidrSubnet::from_v4_prefix(Ipv4Addr::LOCALHOST.octets(), 8)),
            GeneralSubtree::IpAddress(CidrSubnet::from_v6_prefix(
                Ipv6Addr::LOCALHOST.octets(),
                128,
            )),
        ],
        excluded_subtrees: Vec::new(),
    });
    valid_for(&mut params, CA_LIFE);
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn valid_for(params: &mut CertificateParams, life: Duration) {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = date_time_ymd(1970, 1, 1) + since.unwrap_or_default();
    // Clocks of one machine agree, but may be set back.
    params.not_before = now - DAY;
    params.not_after = now + life;
}

/// Makes a CA beside the folder and renames it into place, so that two nodes that start at once have the same one.
fn create(folder: &Path) -> io::Result<()> {
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = authority().self_signed(&key).map_err(io::Error::other)?;
    let above = folder.parent().unwrap_or_else(|| Path::new("."));
    // It is the user's data directory, which nobody else may open either.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(above)?;
    let mut fresh = folder.as_os_str().to_owned();
    fresh.push(format!(".{}", std::process::id()));
    let fresh = PathBuf::from(fresh);
    DirBuilder::new().mode(0o700).create(&fresh)?;
    let written = write(&fresh.join(KEY), &key.serialize_pem())
        .and_then(|()| write(&fresh.join(CERTIFICATE), &certificate.pem()))
        .and_then(|()| fs::rename(&fresh, folder))
        .and_then(|()| base::sync_folder(above));
    if written.is_err() {
        fs::remove_dir_all(&fresh)?;
        // Somebody was faster.
        if folder.join(CERTIFICATE).exists() {
            return Ok(());
        }
    }
    written?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let write = |file: &mut File| file.write_all(text.as_bytes());
    base::replace_file(path, base::PRIVATE, Durability::Durable, write)
}
