//! XDP where a device hides VLAN tags: frames of other VLANs could reach programs.

mod common;

use common::{World, skipped, within};
use tickwire_host::{Ethtool, RouteNetlink, TagStripping};
use tickwire_lane::control::{AttachMode, Reason, Reply, Request};
use tickwire_service::Attach;

/// What the service says of its interface.
fn interface(world: &World) -> (AttachMode, Reason) {
    match world.client().request(&Request::ListInterfaces { after: 0 }, &[]).0 {
        Reply::Interface { info } => (info.mode, info.reason),
        other => panic!("{other:?}"),
    }
}

fn stripping(world: &World) -> TagStripping {
    within(&world.pair.a, || {
        let link = RouteNetlink::open().unwrap().link_by_name("eth0").unwrap().unwrap();
        Ethtool::open().unwrap().tag_stripping(link.index).unwrap()
    })
}

#[test]
fn divert_runs_in_xdp_only_where_it_sees_tags_or_there_are_none() {
    if skipped() {
        return;
    }
    let mut world = World::with(Attach::Native, "untagged = []\n");
    let before = stripping(&world);
    assert_eq!(interface(&world), (AttachMode::None, Reason::TagsHidden));
    assert_eq!(world.client().hello().err(), Some(Reason::TagsHidden), "a program is told the same");
    for (attach, config, mode) in [
        (Attach::Generic, "untagged = []\n", AttachMode::None),
        (Attach::Tc, "untagged = []\n", AttachMode::Tc),
        (Attach::Auto, "untagged = []\n", AttachMode::Tc),
        (Attach::Native, "untagged = [\"eth0\"]\n", AttachMode::Native),
        (Attach::Generic, "untagged = [\"eth0\"]\n", AttachMode::Generic),
    ] {
        world.stop();
        world.start(attach, config);
        assert_eq!(interface(&world).0, mode, "{attach:?} {config}");
    }
    assert_eq!(stripping(&world), before, "a device that would hide them all the same is left as it was");
}
