//! Certificates for tests of encrypted connections.

use std::{fs, path::PathBuf, process::Command};

/// An authority with its certificates, in a folder that ends with this value.
pub(crate) struct Authority(PathBuf);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("fom-tls-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let authority = Self(folder);
        authority.openssl(&format!(
            "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 30 -subj /CN={name}"
        ));
        authority
    }

    fn openssl(&self, args: &str) {
        let mut command = Command::new("openssl");
        let ran = command.args(args.split(' ')).current_dir(&self.0).output();
        let ran = ran.unwrap();
        let told = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "openssl {args}: {told}");
    }

    /// Signs a certificate that is valid for these hosts.
    pub(crate) fn signs(&self, name: &str, hosts: &str) {
        let usage = format!("subjectAltName = {hosts}\nbasicConstraints = CA:FALSE\n");
        fs::write(self.path(&format!("{name}.ext")), usage).unwrap();
        self.openssl(&format!(
            "req -new -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out {name}.crt -days 30 -extfile {name}.ext"
        ));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
