//! Locals that a function may read before anything has assigned them. Safe code has none, unless
//! the compiler has removed an assignment.

use super::mir::{Function, Statement};
use std::collections::BTreeMap;
use std::fmt;

/// A read of a local that nothing has assigned on some path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unassigned<'a> {
    block: u32,
    local: usize,
    statement: &'a str,
}

impl fmt::Display for Unassigned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bb{}: nothing has assigned _{}: {}", self.block, self.local, self.statement)
    }
}

/// A set of locals.
#[derive(Clone, Default, PartialEq, Eq)]
struct Locals(Vec<u64>);

impl Locals {
    fn insert(&mut self, local: usize) {
        if self.0.len() <= local / 64 {
            self.0.resize(local / 64 + 1, 0);
        }
        self.0[local / 64] |= 1 << (local % 64);
    }

    fn remove(&mut self, local: usize) {
        if let Some(word) = self.0.get_mut(local / 64) {
            *word &= !(1 << (local % 64));
        }
    }

    fn contains(&self, local: usize) -> bool {
        self.0.get(local / 64).is_some_and(|word| word & (1 << (local % 64)) != 0)
    }

    /// Keeps what another set contains too; returns whether this one changed.
    fn keep(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (index, word) in self.0.iter_mut().enumerate() {
            let kept = *word & other.0.get(index).copied().unwrap_or_default();
            changed |= kept != *word;
            *word = kept;
        }
        changed
    }

    fn follow(&mut self, statement: &Statement<'_>) {
        statement.assigns.iter().for_each(|&local| self.insert(local));
        if let Some(local) = statement.begins {
            self.remove(local);
        }
    }
}

/// Finds such reads: a local counts as assigned in a block if it is on all paths to it.
pub(super) fn unassigned<'a>(function: &Function<'a>) -> Vec<Unassigned<'a>> {
    let mut found = Vec::new();
    for (number, mut assigned) in assigned_at_begin(function) {
        for statement in &function.blocks[&number].statements {
            let missing = statement.reads.iter().filter(|&&local| !assigned.contains(local));
            found.extend(missing.map(|&local| Unassigned { block: number, local, statement: statement.text }));
            assigned.follow(statement);
        }
    }
    found
}

/// What is assigned where each block begins that can be reached.
fn assigned_at_begin(function: &Function<'_>) -> BTreeMap<u32, Locals> {
    let mut arguments = Locals::default();
    function.arguments.iter().for_each(|&local| arguments.insert(local));
    let mut begins = BTreeMap::from([(0, arguments)]);
    let mut next = vec![0];
    while let Some(number) = next.pop() {
        let (Some(block), Some(mut assigned)) = (function.blocks.get(&number), begins.get(&number).cloned()) else {
            continue;
        };
        let Some((terminator, statements)) = block.statements.split_last() else { continue };
        statements.iter().for_each(|statement| assigned.follow(statement));
        // A call that unwinds has assigned nothing.
        let unwound = assigned.clone();
        assigned.follow(terminator);
        for target in block.targets().into_iter().filter(|target| function.blocks.contains_key(&target.block)) {
            let coming = if target.unwinds { &unwound } else { &assigned };
            let is_new = match begins.get_mut(&target.block) {
                Some(known) => known.keep(coming),
                None => begins.insert(target.block, coming.clone()).is_none(),
            };
            if is_new {
                next.push(target.block);
            }
        }
    }
    begins
}

#[cfg(test)]
mod tests {
    use super::super::mir::functions;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        functions(text).iter().flat_map(unassigned).map(|found| found.to_string()).collect()
    }

    /// What the compiler made of a comparison whose result is used twice.
    const MISCOMPILED: &str = "fn main() -> () {\n    let mut _1: Course;\n    let mut _5: bool;\n\n    bb0: {\n        \
        StorageLive(_5);\n        _24 = copy (_1.1: Left);\n        _26 = discriminant(_24);\n        \
        switchInt(move _26) -> [3: bb1, otherwise: bb2];\n    }\n\n    bb1: {\n        _25 = copy _5 as u32 (IntToInt);\n        \
        goto -> bb0;\n    }\n\n    bb2: {\n        return;\n    }\n}\n";

    #[test]
    fn a_removed_assignment_is_found_with_its_block_and_statement() {
        let text = MISCOMPILED.replace("        StorageLive(_5);", "        _1 = Course {};\n        StorageLive(_5);");
        assert_eq!(found(&text), ["bb1: nothing has assigned _5: _25 = copy _5 as u32 (IntToInt)"]);
        let right = text
            .replace("_26 = discriminant(_24);", "_26 = discriminant(_24);\n        _5 = Eq(copy _26, const 3_isize);");
        assert_eq!(found(&right), [""; 0]);
    }

    #[test]
    fn a_local_is_assigned_if_it_is_on_all_paths() {
        let text = |first: &str, other: &str| {
            format!(
                "fn f(_1: bool) -> u32 {{\n    bb0: {{\n        switchInt(copy _1) -> [0: bb1, otherwise: bb2];\n    }}\n    \
                bb1: {{\n        {first};\n        goto -> bb3;\n    }}\n    bb2: {{\n        {other};\n        goto -> bb3;\n    }}\n    \
                bb3: {{\n        _0 = copy _2;\n        return;\n    }}\n}}\n"
            )
        };
        assert_eq!(found(&text("_2 = const 1_u32", "_2 = const 2_u32")), [""; 0]);
        assert_eq!(found(&text("_2 = const 1_u32", "nop")).len(), 1);
        assert_eq!(found(&text("_2 = const 1_u32", "StorageLive(_2)")).len(), 1);
        assert_eq!(found(&text("_2 = const 1_u32", "_3 = &mut _2")), [""; 0], "it is assigned through the borrow");
    }

    #[test]
    fn a_call_assigns_its_result_where_it_returns() {
        let text = "fn f() -> u32 {\n    bb0: {\n        _2 = g() -> [return: bb1, unwind: bb2];\n    }\n    bb1: {\n        \
            _0 = copy _2;\n        return;\n    }\n    bb2 (cleanup): {\n        _3 = copy _2;\n        resume;\n    }\n}\n";
        assert_eq!(found(text), ["bb2: nothing has assigned _2: _3 = copy _2"]);
    }
}
