//! Where every field of the shared memory lies, as a hash at compile time.
//!
//! Two builds may share a region only if they agree on every field, also on two of one size that
//! have changed places. So [`SharedLayout::HASH`] of a structure covers the name, the offset and
//! the hash of each of its fields. The compiler sees to it that none is left out: a structure of
//! the memory without `shared_layout!`, or a list that lacks a field, does not compile.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// A type in shared memory, made by `shared_layout!` for structures and enumerations.
pub(crate) trait SharedLayout {
    /// A hash over its size, its alignment and its fields.
    const HASH: u64;
}

/// The hash of a field's type, which is inferred from its accessor.
pub(crate) const fn of_field<S, F: SharedLayout>(_: fn(&S) -> &F) -> u64 {
    F::HASH
}

/// Implements [`SharedLayout`]: `shared_layout! { Name { field, field } }` for a structure (`{ 0 }`
/// for a tuple of one), `shared_layout! { enum Name { Variant, Variant } }` for an enumeration.
macro_rules! shared_layout {
    (enum $name:ident { $($variant:ident),+ $(,)? }) => {
        impl crate::shared_layout::SharedLayout for $name {
            const HASH: u64 = {
                // Does not compile if a variant is missing.
                let _ = |value: &Self| match value { $(Self::$variant => (),)+ };
                let hash = crate::shared_layout::Fnv::new().add_type::<Self>();
                $( let hash = hash.add_name(stringify!($variant)).add(Self::$variant as u64); )+
                hash.0
            };
        }
    };
    ($name:ident $(<$g:ident>)? { $($field:tt),+ $(,)? }) => {
        impl $(<$g>)? crate::shared_layout::SharedLayout for $name $(<$g>)? {
            const HASH: u64 = {
                // Does not compile if a field is missing.
                let _ = |Self { $($field: _),+ }: &Self| ();
                let hash = crate::shared_layout::Fnv::new().add_type::<Self>();
                $(
                    let hash = hash
                        .add_name(stringify!($field))
                        .add(core::mem::offset_of!(Self, $field) as u64)
                        .add(crate::shared_layout::of_field::<Self, _>(|all| &all.$field));
                )+
                hash.0
            };
        }
    };
}

macro_rules! plain {
    ($($ty:ty),+) => {
        $( impl SharedLayout for $ty {
            const HASH: u64 = Fnv::new().add_name(stringify!($ty)).add_type::<Self>().0;
        } )+
    };
}

plain!(bool, u8, u16, u32, u64, i32, AtomicU32, AtomicU64);

impl<T> SharedLayout for PhantomData<T> {
    const HASH: u64 = 0;
}

impl<T: SharedLayout, const N: usize> SharedLayout for [T; N] {
    const HASH: u64 = Fnv::new().add(T::HASH).add(N as u64).0;
}

/// FNV-1a over words, usable in constants.
pub(crate) struct Fnv(pub(crate) u64);

impl Fnv {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) const fn add(self, word: u64) -> Self {
        Self((self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3))
    }

    pub(crate) const fn add_type<T>(self) -> Self {
        self.add(size_of::<T>() as u64).add(align_of::<T>() as u64)
    }

    pub(crate) const fn add_name(mut self, name: &str) -> Self {
        let bytes = name.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            self = self.add(bytes[i] as u64);
            i += 1;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    mod one {
        #[repr(C)]
        pub(super) struct Pair {
            pub(super) first: u32,
            pub(super) second: u32,
        }
        #[repr(C)]
        pub(super) struct Outer {
            pub(super) pair: Pair,
        }
        #[repr(u8)]
        pub(super) enum Order {
            First = 0,
            Second = 1,
        }
        shared_layout! { Pair { first, second } }
        shared_layout! { Outer { pair } }
        shared_layout! { enum Order { First, Second } }
    }

    /// The same with two fields, and two variants, in each other's place.
    mod other {
        #[repr(C)]
        pub(super) struct Pair {
            pub(super) second: u32,
            pub(super) first: u32,
        }
        #[repr(C)]
        pub(super) struct Outer {
            pub(super) pair: Pair,
        }
        #[repr(u8)]
        pub(super) enum Order {
            Second = 0,
            First = 1,
        }
        shared_layout! { Pair { first, second } }
        shared_layout! { Outer { pair } }
        shared_layout! { enum Order { First, Second } }
    }

    #[test]
    fn two_fields_of_one_size_in_each_others_place_are_another_layout() {
        assert_eq!(size_of::<one::Outer>(), size_of::<other::Outer>());
        assert_ne!(one::Pair::HASH, other::Pair::HASH);
        assert_ne!(one::Outer::HASH, other::Outer::HASH, "also deep inside");
        assert_ne!(one::Order::HASH, other::Order::HASH);
    }

    #[test]
    fn the_kind_of_a_number_and_the_length_of_a_list_count() {
        assert_ne!(u32::HASH, AtomicU32::HASH);
        assert_ne!(<[u32; 4]>::HASH, <[u32; 5]>::HASH);
        assert_ne!(<[u32; 4]>::HASH, <[AtomicU32; 4]>::HASH);
    }
}
