//! Attempts on memory.

use std::ffi::OsString;
use std::hint::black_box;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::fs::MemfdFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Outcome, again, must_fail, number};

/// What makes system calls that this program cannot make without `unsafe`.
pub(crate) const PERL: &str = "/usr/bin/perl";

/// Using more than so much memory of its own.
pub(super) fn much(arguments: &[OsString]) -> Outcome {
    const CHUNK: usize = 1 << 20;
    let most = number(arguments, 0) >> 20;
    let mut taken = Vec::new();
    for megabytes in 0..=most {
        let mut chunk: Vec<u8> = Vec::new();
        if let Err(why) = chunk.try_reserve_exact(CHUNK) {
            drop(taken); // the line below needs some
            return Outcome::Held(format!("{megabytes} MiB, then: {why}"));
        }
        chunk.resize(CHUNK, 1);
        taken.push(chunk);
    }
    Outcome::Broken(format!("{} MiB are in use", taken.len()))
}

/// Making memory that no process owns.
pub(super) fn shared(_: &[OsString]) -> Outcome {
    must_fail(
        "a file in memory",
        rustix::fs::memfd_create("attempt", MemfdFlags::CLOEXEC),
    )
}

/// Making memory that grows downwards, which the kernel takes for a stack.
pub(super) fn grows_down(_: &[OsString]) -> Outcome {
    // Private, anonymous, growing downwards; to be read and written.
    let script = format!(
        "my $at = syscall({MMAP}, 0, 1 << 20, 3, 0x122, -1, 0); \
         print $at == -1 ? qq(held: memory that grows downwards: $!) \
         : qq(broken: memory that grows downwards is possible)"
    );
    perl(&script, &[])
}

/// Having more than so many MiB of page tables: of mappings that are only read, and so are no data to
/// the kernel, of which one page in so many is looked at that each needs a table of its own.
pub(super) fn sparse(arguments: &[OsString]) -> Outcome {
    // Private, anonymous, not reserved; to be read. A GiB at a time, and a page for each table.
    let script = format!(
        "my ($most, $gigabytes) = (shift, 0); \
         while (1) {{ \
           my $at = syscall({MMAP}, 0, 1 << 30, 1, 0x4022, -1, 0); \
           if ($at == -1) {{ print qq(held: $gigabytes GiB are mapped, then: $!); last }} \
           $gigabytes++; \
           for (my $to = 0; $to < 1 << 30; $to += 2 << 20) {{ unpack('P1', pack('Q', $at + $to)) }} \
           open(my $status, '<', '/proc/self/status'); \
           my ($tables) = join('', <$status>) =~ /VmPTE:\\s*(\\d+)/; \
           if ($tables >> 10 > $most) {{ print qq(broken: $tables KiB are page tables); last }} \
         }}"
    );
    perl(&script, &[number(arguments, 0).to_string()])
}

/// Having a stack of any size, and using more than so much of it.
pub(super) fn stack(arguments: &[OsString]) -> Outcome {
    let any = Rlimit {
        current: None,
        maximum: None,
    };
    let refused = must_fail("a stack of any size", setrlimit(Resource::Stack, any));
    let Outcome::Held(how) = refused else {
        return refused;
    };
    // The largest there may be, for the next program.
    let most = getrlimit(Resource::Stack).maximum;
    let largest = Rlimit {
        current: most,
        maximum: most,
    };
    let bytes = number(arguments, 0).to_string().into();
    let deep = setrlimit(Resource::Stack, largest)
        .map_err(Into::into)
        .and_then(|()| again("deep", &[bytes], Stdio::piped()))
        .and_then(|child| child.wait_with_output());
    match deep {
        Ok(deep) if !deep.status.success() && deep.stdout.is_empty() => {
            let most = most.map_or_else(|| "any number of".to_owned(), |most| most.to_string());
            Outcome::Held(format!("{how}; one of {most} bytes: {}", deep.status))
        }
        other => Outcome::Broken(format!("a deep stack is possible: {other:?}")),
    }
}

/// Uses so many bytes of its stack.
pub(super) fn deep(arguments: &[OsString]) -> Outcome {
    const FRAME: usize = 16 << 10;
    fn down(left: u64) -> usize {
        let frame = [1_u8; FRAME];
        let below = left.checked_sub(1).map(down).unwrap_or_default();
        // It is used after the call, so that all of them are there at once.
        below.saturating_add(black_box(&frame).len())
    }
    let used = down(number(arguments, 0) / FRAME as u64);
    Outcome::Broken(format!("{used} bytes of stack are in use"))
}

/// Has a script made of an attempt; what it says is what came of it.
fn perl(script: &str, arguments: &[String]) -> Outcome {
    let mut said = String::new();
    let ran = Command::new(PERL)
        .args(["-e", script])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            if let Some(output) = &mut child.stdout {
                output.read_to_string(&mut said)?;
            }
            child.wait()
        });
    match (ran, said.split_once(": ")) {
        (Ok(status), Some(("held", how))) if status.success() => Outcome::Held(how.into()),
        (ran, _) => Outcome::Broken(format!("{said} ({ran:?})")),
    }
}

/// The number of the system call `mmap`.
const MMAP: u32 = match cfg!(target_arch = "x86_64") {
    true => 9,
    false => 222,
};
