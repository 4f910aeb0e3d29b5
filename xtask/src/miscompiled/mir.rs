//! Reads the compiler's MIR, as text (`--emit=mir`), as far as the check needs it: which locals a
//! statement reads and assigns, and where a block leads.

use std::collections::BTreeMap;

/// A function, or the value of a constant.
#[derive(Debug)]
pub(super) struct Function<'a> {
    /// Its first line.
    pub(super) signature: &'a str,
    pub(super) arguments: Vec<usize>,
    pub(super) blocks: BTreeMap<u32, Block<'a>>,
}

/// A basic block.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    /// The last one is the terminator.
    pub(super) statements: Vec<Statement<'a>>,
}

/// A statement or a terminator.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Statement<'a> {
    pub(super) text: &'a str,
    /// The locals that it reads.
    pub(super) reads: Vec<usize>,
    /// The locals that it assigns, in part at least, or that may be assigned through its borrow.
    pub(super) assigns: Vec<usize>,
    /// The local whose storage begins.
    pub(super) begins: Option<usize>,
}

/// Where a terminator leads, and whether by unwinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) block: u32,
    pub(super) unwinds: bool,
}

/// What comes before a place that is read.
const READS: [&str; 2] = ["copy ", "move "];
/// What comes before a place of which a reference, the discriminant or the length is taken. This
/// reads a pointer on the way to it. The place itself does not count: where a `?` cannot fail, the
/// compiler leaves the discriminant and the reference of a value that it no longer makes.
const REFERENCES: [&str; 4] = ["&", "&raw const ", "discriminant(", "Len("];
/// What comes before a place that is borrowed for writing.
const BORROWS: [&str; 2] = ["&mut ", "&raw mut "];

/// The functions of a file.
pub(super) fn functions(text: &str) -> Vec<Function<'_>> {
    let mut found: Vec<Function<'_>> = Vec::new();
    let mut block = None;
    for line in text.lines() {
        if !line.starts_with([' ', '}', '/']) && line.ends_with('{') {
            found.push(Function { signature: line, arguments: arguments(line), blocks: BTreeMap::new() });
            block = None;
        } else if let Some(function) = found.last_mut() {
            if let Some(number) = line.strip_prefix("    bb").filter(|rest| rest.ends_with('{')).and_then(leading) {
                block = u32::try_from(number).ok();
                function.blocks.extend(block.map(|number| (number, Block::default())));
            } else if line.starts_with("    }") {
                block = None;
            } else if let Some(block) = block.and_then(|number| function.blocks.get_mut(&number))
                && !line.trim().is_empty()
                && !line.trim().starts_with("//")
            {
                block.statements.push(statement(line.trim().trim_end_matches(';')));
            }
        }
    }
    found.retain(|function| !function.blocks.is_empty());
    found
}

impl Block<'_> {
    /// Where its terminator leads.
    pub(super) fn targets(&self) -> Vec<Target> {
        let terminator = self.statements.last().map_or("", |last| last.text);
        let Some((_, list)) = terminator.rsplit_once(" -> ") else { return Vec::new() };
        let list = list.trim_start_matches('[').trim_end_matches(']');
        let target = |entry: &str| {
            let (label, block) = entry.rsplit_once(' ').unwrap_or(("", entry));
            let block = u32::try_from(leading(block.strip_prefix("bb")?)?).ok()?;
            Some(Target { block, unwinds: label == "unwind:" })
        };
        list.split(", ").filter_map(target).collect()
    }
}

/// The arguments in a signature: `fn f(_1: u32, _2: &str) -> u32 {`.
fn arguments(signature: &str) -> Vec<usize> {
    let names = signature.match_indices("_").filter(|(at, _)| signature[..*at].ends_with(['(', ' ']));
    names
        .filter_map(|(at, _)| {
            let (number, rest) = local(&signature[at..])?;
            rest.starts_with(':').then_some(number)
        })
        .collect()
}

fn statement(text: &str) -> Statement<'_> {
    let mut read = Statement { text, ..Statement::default() };
    if let Some(rest) = text.strip_prefix("StorageLive(") {
        read.begins = local(rest).map(|(number, _)| number);
        return read;
    }
    // The others have no effect at run time, such as `StorageDead`, `PlaceMention` and `nop`.
    let code = without_literals(text);
    let Some((target, value)) = assignment(&code) else {
        if code.starts_with("asm!(") {
            read.assigns = locals(&code);
        } else if code.contains('(') && !code.starts_with(char::is_uppercase) {
            operands(&code, &mut read);
        }
        return read;
    };
    operands(value, &mut read);
    if let Some((number, is_behind_pointer)) = place(target.strip_prefix("discriminant(").unwrap_or(target)) {
        let list = if is_behind_pointer { &mut read.reads } else { &mut read.assigns };
        list.push(number);
    }
    read.reads.extend(indices(target));
    read
}

/// The places that a value reads or borrows.
fn operands(value: &str, read: &mut Statement<'_>) {
    for (at, _) in value.char_indices() {
        if value[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &value[at..];
        let after = |marks: &[&str]| marks.iter().find_map(|mark| place(rest.strip_prefix(mark)?));
        match (after(&BORROWS), after(&REFERENCES), after(&READS)) {
            (Some((number, false)), _, _) => read.assigns.push(number),
            (Some((number, true)), _, _) | (_, Some((number, true)), _) | (_, _, Some((number, _))) => {
                read.reads.push(number);
            }
            _ => {}
        }
    }
    read.reads.extend(indices(value));
}

/// The local at the beginning of a place, and whether the place is behind a pointer in it.
fn place(text: &str) -> Option<(usize, bool)> {
    let at = text.find(|c| c != '(' && c != '*')?;
    let (number, _) = local(&text[at..])?;
    Some((number, text[..at].contains('*')))
}

/// The locals that are indices: `_1[_2]`.
fn indices(code: &str) -> impl Iterator<Item = usize> {
    code.match_indices("[_").filter_map(|(at, _)| {
        let (number, rest) = local(&code[at + 1..])?;
        rest.starts_with(']').then_some(number)
    })
}

/// All locals in it.
fn locals(code: &str) -> Vec<usize> {
    let starts = code.match_indices('_').filter(|(at, _)| !code[..*at].ends_with(char::is_alphanumeric));
    starts.filter_map(|(at, _)| local(&code[at..])).map(|(number, _)| number).collect()
}

/// The number of a local at the beginning of a text, and the rest.
fn local(text: &str) -> Option<(usize, &str)> {
    let digits = text.strip_prefix('_')?;
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_name = rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    Some((leading(digits).filter(|_| !is_name)?, rest))
}

/// The number at the beginning of a text.
fn leading(text: &str) -> Option<usize> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Cuts an assignment at its `=`, which is not within brackets (`dyn Iterator<Item = u8>`).
fn assignment(code: &str) -> Option<(&str, &str)> {
    let mut depth = 0_i32;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if !code[..at].ends_with(['-', '=']) => depth -= 1,
            '=' if depth == 0 && code[..at].ends_with(' ') && code[at..].starts_with("= ") => {
                return Some((&code[..at - 1], &code[at + 2..]));
            }
            _ => {}
        }
    }
    None
}

/// The code without the text in strings and characters.
fn without_literals(text: &str) -> String {
    let text = text.replace("'\"'", "''").replace("'\\\"'", "''");
    let mut code = String::with_capacity(text.len());
    let mut is_string = false;
    let mut is_escaped = false;
    for c in text.chars() {
        let ends = c == '"' && !is_escaped;
        is_escaped = is_string && c == '\\' && !is_escaped;
        if !is_string || ends {
            code.push(c);
        }
        is_string ^= ends;
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locals_that_a_statement_reads_and_assigns_are_found() {
        let read = |text| {
            let Statement { reads, assigns, .. } = statement(text);
            (reads, assigns)
        };
        assert_eq!(read("_3 = Add(copy _1, move (_2.0: u32))"), (vec![1, 2], vec![3]));
        assert_eq!(read("((*_1).1: Left) = const Left::Nothing"), (vec![1], vec![]));
        assert_eq!(read("(_4.1: dyn Iterator<Item = u8>) = copy (*_5)"), (vec![5], vec![4]));
        assert_eq!(read("_7 = &mut _1"), (vec![], vec![1, 7]));
        assert_eq!(read("_7 = &raw mut (*_1)"), (vec![1], vec![7]));
        assert_eq!(read("_7 = &(_1.0: u8)"), (vec![], vec![7]));
        assert_eq!(read("_7 = &((*_1).0: u8)"), (vec![1], vec![7]));
        assert_eq!(read("discriminant(_1) = 2"), (vec![], vec![1]));
        assert_eq!(read("_2 = discriminant((*_1))"), (vec![1], vec![2]));
        assert_eq!(read("_2 = copy _3[_4]"), (vec![3, 4], vec![2]));
        assert_eq!(read("switchInt(move _5) -> [0: bb1, otherwise: bb2]"), (vec![5], vec![]));
        assert_eq!(read("_1 = const \"a \\\" = copy _9\""), (vec![], vec![1]));
        assert_eq!(read("_1 = f(const '\"', copy _2) -> [return: bb1, unwind continue]"), (vec![2], vec![1]));
        assert_eq!(read("asm!(\"rdtsc\", out(\"eax\") _4, options()) -> [return: bb1, unwind unreachable]").1, [4]);
        assert_eq!(read("StorageDead(_2)"), (vec![], vec![]));
        assert_eq!(statement("StorageLive(_2)").begins, Some(2));
    }

    #[test]
    fn functions_and_the_ways_between_their_blocks_are_found() {
        let text = "fn f(_1: u32, _2: fn(u8) -> u8) -> u32 {\n    let mut _0: u32;\n\n    bb0: {\n        \
            _0 = move _2(copy _1) -> [return: bb1, unwind: bb2];\n    }\n\n    bb1: {\n        goto -> bb3;\n    }\n\n    \
            bb2 (cleanup): {\n        resume;\n    }\n\n    bb3: {\n        switchInt(copy _1) -> [0: bb1, otherwise: bb4];\n    \
            }\n}\n\nalloc1 (size: 4, align: 1) {\n    01 02 03 04 │ ....\n}\n";
        let found = functions(text);
        let [function] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((function.arguments.as_slice(), function.blocks.len()), (&[1, 2][..], 4));
        let targets = |block| -> Vec<_> {
            function.blocks[&block].targets().into_iter().map(|target| (target.block, target.unwinds)).collect()
        };
        assert_eq!((targets(0), targets(1)), (vec![(1, false), (2, true)], vec![(3, false)]));
        assert_eq!((targets(2), targets(3)), (vec![], vec![(1, false), (4, false)]));
    }
}
