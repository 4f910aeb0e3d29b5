//! Waits until a server is listening.

use crate::stat::Stat;
use crate::{LabHost, Process, tools};
use anyhow::{Result, bail};
use serde_json::Value;
use std::time::Duration;

/// Within this a server binds its port, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Within this after the bind, an accelerated server's port is registered with the service.
const ENTERED: Duration = Duration::from_secs(5);
/// Wait for a server whose lane cannot be found by its process number.
const MOMENT: Duration = Duration::from_millis(150);

/// Waits until a server's port is bound (`tcp` or `udp`) on its host. If the server has a lane, it
/// also waits until the port is diverted to the lane. That follows the kernel's own `bind` or
/// `listen`; packets received in between are handled by the kernel. A socket that stays on the
/// kernel for good is not an error here.
///
/// # Errors
/// The server ended (the error contains its output), or has not bound the port within half a
/// minute.
pub fn wait_until_listening(host: &LabHost, protocol: &str, port: u16, server: &mut Process) -> Result<()> {
    let sockets = if protocol == "tcp" { "-lnt" } else { "-lnu" };
    let filter = format!("sport = :{port}");
    let mut gone = false;
    tools::until(&format!("port {port} is bound"), TIMEOUT, || {
        gone = !server.is_running().unwrap_or(false);
        gone || host.run(&["ss", "-H", sockets, &filter]).is_ok_and(|found| !found.trim().is_empty())
    })?;
    if gone {
        bail!("the server ended: {}{}", server.stdout(), server.stderr());
    }
    let suffix = format!(":{port}");
    let mut known = false;
    let _ = tools::until("the port is diverted", ENTERED, || {
        let Ok(stat) = Stat::read(host) else {
            // No service, so there is nothing to wait for.
            known = true;
            return true;
        };
        // Its children may have lanes of their own, and one of them may own the port.
        let lanes = stat.lanes_of_group(server.id());
        let settled = lanes.is_empty() || lanes.iter().any(|lane| is_settled(lane, protocol, &suffix));
        known = settled && !lanes.is_empty();
        settled
    });
    if !known {
        std::thread::sleep(MOMENT);
    }
    Ok(())
}

/// Whether a lane has the port, or the socket was left to the kernel.
fn is_settled(lane: &Value, protocol: &str, suffix: &str) -> bool {
    let has = |list: &str, wanted: &dyn Fn(&Value) -> bool| {
        lane[list].as_array().is_some_and(|entries| {
            entries.iter().any(|entry| {
                entry["protocol"] == protocol
                    && entry["local"].as_str().is_some_and(|local| local.ends_with(suffix))
                    && wanted(entry)
            })
        })
    };
    has("claims", &|_| true) || has("sockets", &|socket| socket["accelerated"] == false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_port_is_settled_when_it_is_diverted_or_left_to_the_kernel() {
        let socket = |accelerated| json!({"protocol": "tcp", "local": "10.0.0.1:80", "accelerated": accelerated});
        let settled = |lane: &Value| is_settled(lane, "tcp", ":80");
        assert!(!settled(&json!({"claims": [], "sockets": [socket(true)]})));
        assert!(settled(&json!({"claims": [], "sockets": [socket(false)]})));
        assert!(settled(&json!({"claims": [{"protocol": "tcp", "local": "0.0.0.0:80"}], "sockets": []})));
        assert!(!settled(&json!({"claims": [{"protocol": "udp", "local": "0.0.0.0:80"}], "sockets": []})));
        assert!(!settled(&json!({"claims": [{"protocol": "tcp", "local": "0.0.0.0:8080"}], "sockets": []})));
    }
}
