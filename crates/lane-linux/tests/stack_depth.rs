//! The stack that the BPF programs need, as the strictest of the kernels counts it that load them.
//!
//! A program and the functions that it calls have 512 bytes together. Before Linux 6.8 the kernel
//! rounds the part of each function up to 32 bytes, later ones to 16: what the kernel of the test
//! loads an older one may refuse.

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SymbolKind};
use std::collections::BTreeMap;

const MOST: u32 = 512;
const ROUNDED_TO: u32 = 32;

/// Instruction codes (`linux/bpf.h`): a call, of a function of the program; a copy of a register;
/// an addition.
const CALL: u8 = 0x85;
const OF_A_FUNCTION: u8 = 1;
const COPY: u8 = 0xbf;
const ADD: u8 = 0x07;
/// Classes of instructions: load, store of a constant, store of a register.
const LOAD: u8 = 1;
const STORES: [u8; 2] = [2, 3];
/// The register that points to the end of the function's stack.
const FRAME: u8 = 10;

/// The stack that a function needs by itself, and the functions that it calls.
#[derive(Debug, Default)]
struct Function {
    stack: u32,
    calls: Vec<String>,
}

fn functions(bytes: &[u8]) -> BTreeMap<String, Function> {
    let file = object::File::parse(bytes).unwrap();
    let named = |section: SectionIndex, at: u64| {
        let mut all = file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.section_index() == Some(section));
        all.find(|s| s.address() == at).map(|s| s.name().unwrap().to_owned())
    };
    let mut found = BTreeMap::new();
    for symbol in file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.size() > 0) {
        let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
        let relocations: BTreeMap<u64, RelocationTarget> =
            section.relocations().map(|(at, relocation)| (at, relocation.target())).collect();
        let mut function = Function::default();
        let mut copied = None;
        let code = &section.data().unwrap()[symbol.address() as usize..(symbol.address() + symbol.size()) as usize];
        for (at, instruction) in (symbol.address()..).step_by(8).zip(code.as_chunks::<8>().0) {
            let [code, registers, low, high, constant @ ..] = *instruction;
            let (to, from) = (registers & 15, registers >> 4);
            let offset = i16::from_le_bytes([low, high]);
            let constant = i32::from_le_bytes(constant);
            let class = code & 7;
            if class == LOAD && from == FRAME || STORES.contains(&class) && to == FRAME {
                function.stack = function.stack.max(u32::from(offset.unsigned_abs()));
            }
            if code == ADD && copied == Some(to) && constant < 0 {
                function.stack = function.stack.max(constant.unsigned_abs());
            }
            copied = (code == COPY && from == FRAME).then_some(to);
            if code == CALL && from == OF_A_FUNCTION {
                let callee = match relocations.get(&at) {
                    Some(&RelocationTarget::Symbol(index)) => {
                        let symbol = file.symbol_by_index(index).unwrap();
                        // A section's symbol: the function is told by its place, in instructions
                        // behind this one.
                        let place = (i64::from(constant) + 1) * 8;
                        if symbol.kind() == SymbolKind::Text {
                            Some(symbol.name().unwrap().to_owned())
                        } else {
                            named(symbol.section_index().unwrap(), u64::try_from(place).unwrap())
                        }
                    }
                    _ => named(section.index(), at.wrapping_add_signed((i64::from(constant) + 1) * 8)),
                };
                function.calls.push(callee.expect("a call of a function"));
            }
        }
        found.insert(symbol.name().unwrap().to_owned(), function);
    }
    found
}

/// The deepest chain of calls: its bytes, and the functions on it.
fn deepest(all: &BTreeMap<String, Function>, name: &str) -> (u32, Vec<String>) {
    let function = &all[name];
    let own = function.stack.max(1).next_multiple_of(ROUNDED_TO);
    let below = function.calls.iter().map(|callee| deepest(all, callee)).max_by_key(|(bytes, _)| *bytes);
    let (bytes, chain) = below.unwrap_or_default();
    (own + bytes, [vec![format!("{name} {}", function.stack)], chain].concat())
}

#[test]
fn no_chain_of_calls_needs_more_stack_than_the_oldest_kernel_gives() {
    let all = functions(tickwire_lane_linux::bpf::HOST);
    assert!(all.contains_key("divert_tc") && all["divert_tc"].calls.contains(&"divert_skb".to_owned()), "{all:?}");
    for name in all.keys() {
        let (bytes, chain) = deepest(&all, name);
        assert!(bytes <= MOST, "{bytes} bytes: {}", chain.join(" -> "));
    }
}
