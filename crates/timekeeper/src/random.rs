//! Unpredictable random numbers, from the kernel.

/// Random bytes.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // getrandom does not fail on a booted Linux; without it no request is safe.
    getrandom::fill(&mut bytes).expect("the kernel's random numbers");
    bytes
}

/// Two random words.
pub(crate) fn words() -> [u64; 2] {
    [(); 2].map(|()| u64::from_ne_bytes(bytes()))
}
