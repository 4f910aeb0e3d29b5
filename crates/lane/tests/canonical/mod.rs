//! What must hold of all bytes on the control socket: decoding returns an error, or a message that
//! is encoded as just these bytes. Shared with the fuzz target `control`.

use tickwire_lane::control::{MAX_DESCRIPTORS, MalformedMessage, MessageTo, Push, Reply, Request};

/// Decodes in one direction; if it is a message, it must be the only form of itself.
fn one_direction<M: MessageTo>(bytes: &[u8], descriptors: usize) -> Result<(), MalformedMessage> {
    let (number, message) = M::decode(bytes, descriptors)?;
    let mut again = Vec::new();
    message.encode(number, &mut |bytes| again = bytes.to_vec());
    assert_eq!(again, bytes);
    Ok(())
}

/// Decodes in all directions with every number of descriptors. Returns whether it is a message in
/// any.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let mut known = false;
    // One more than can come.
    for descriptors in 0..=MAX_DESCRIPTORS + 1 {
        let forms = [
            one_direction::<Request>(bytes, descriptors),
            one_direction::<Reply>(bytes, descriptors),
            one_direction::<Push>(bytes, descriptors),
        ];
        let messages = forms.iter().filter(|form| form.is_ok()).count();
        assert!(messages <= 1, "a message is one in one direction only");
        known |= messages == 1;
    }
    known
}
