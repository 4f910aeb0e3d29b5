//! A computer of the lab: a network namespace.

use crate::process::Process;
use crate::processors::Processors;
use crate::registry::Registration;
use crate::shell;
use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// One computer. Programs run inside it with [`LabHost::command`]; they end with the lab.
#[derive(Clone, Debug)]
pub struct LabHost {
    /// Keeps the lab while the host is in use.
    registration: Arc<Registration>,
    name: String,
    namespace: String,
}

impl LabHost {
    pub(crate) fn new(registration: Arc<Registration>, name: &str) -> Result<Self> {
        let namespace = registration.add_namespace(name)?;
        let host = Self { registration, name: name.to_owned(), namespace };
        host.run(&["ip", "link", "set", "lo", "up"])?;
        // Without duplicate address detection an address works at once; the lab has no duplicates.
        host.sysctl("net.ipv6.conf.all.accept_dad", "0")?;
        host.sysctl("net.ipv6.conf.default.accept_dad", "0")?;
        std::fs::create_dir_all(host.directory())?;
        Ok(host)
    }

    /// The name that was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the namespace, for `ip netns exec`.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A directory of the host's own, which goes away with the lab.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.registration.directory().join(&self.name)
    }

    /// The socket of this host's Tickwire service; programs of the host get it as
    /// `TICKWIRE_SOCKET`.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory().join("service.sock")
    }

    /// A command that will run inside the host.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, program]).env("TICKWIRE_SOCKET", self.socket());
        command
    }

    /// The same, on these processors.
    #[must_use]
    pub fn command_on(&self, processors: &Processors, program: &str) -> Command {
        if processors.is_empty() {
            return self.command(program);
        }
        let mut command = self.command("taskset");
        command.args(["-c", &processors.list(), program]);
        command
    }

    /// A command that will run inside the host under `tickwire run --require`: it starts
    /// accelerated or not at all.
    ///
    /// # Errors
    /// The program `tickwire` has not been built.
    pub fn accelerated(&self, program: &str) -> Result<Command> {
        let tickwire = crate::tools::tickwire()?;
        let mut command = self.command(&tickwire.to_string_lossy());
        command.args(["run", "--require", "--", program]);
        Ok(command)
    }

    /// Runs a command inside the host to its end and returns its standard output.
    ///
    /// # Errors
    /// It cannot be started or fails; the error contains its output.
    pub fn run(&self, command: &[&str]) -> Result<String> {
        let (program, arguments) = command.split_first().context("an empty command")?;
        shell::output(self.command(program).args(arguments))
    }

    /// Runs a closure inside the host's network namespace, in a thread of its own, and waits for
    /// it.
    ///
    /// # Errors
    /// The namespace cannot be entered: that needs root.
    ///
    /// # Panics
    /// The closure does.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let namespace = File::open(format!("/run/netns/{}", self.namespace)).context("no namespace")?;
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&namespace, CloneFlags::CLONE_NEWNET).context("cannot enter the namespace")?;
                Ok(work())
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts a command inside the host; it is killed when the value is dropped.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(&self, command: &[&str]) -> Result<Process> {
        let (program, arguments) = command.split_first().context("an empty command")?;
        let mut prepared = self.command(program);
        prepared.args(arguments);
        Process::spawn(prepared)
    }

    /// Starts this many programs inside the host that keep a processor busy each, until they are
    /// dropped.
    ///
    /// # Errors
    /// They cannot be started.
    pub fn busy(&self, processors: usize) -> Result<Vec<Process>> {
        (0..processors).map(|_| self.spawn(&["sh", "-c", "while :; do :; done"])).collect()
    }

    /// Sets a kernel variable of the host's network (`net.…`).
    ///
    /// # Errors
    /// There is no such variable, or the value is not accepted.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<()> {
        // `ip netns exec` shows the namespace's own /proc/sys/net to the process that it starts.
        let script = format!("echo {value} > /proc/sys/{}", name.replace('.', "/"));
        self.run(&["sh", "-c", &script]).map(drop).with_context(|| format!("cannot set {name} to {value}"))
    }

    /// Gives an interface an address with its prefix length (`10.1.0.1/24`, `fd00::1/64`).
    ///
    /// # Errors
    /// The interface or the address is not accepted.
    pub fn address(&self, interface: &str, address: &str) -> Result<()> {
        let mut command = vec!["ip", "address", "add", address, "dev", interface];
        if address.contains(':') {
            command.push("nodad");
        }
        self.run(&command).map(drop)
    }

    /// Changes an interface's MTU.
    ///
    /// # Errors
    /// The interface does not take it.
    pub fn mtu(&self, interface: &str, mtu: u32) -> Result<()> {
        self.run(&["ip", "link", "set", interface, "mtu", &mtu.to_string()]).map(drop)
    }
}
