//! The rank of this process among those of a job, by the variables of torchrun, mpirun and Slurm.

use std::ffi::OsString;
use std::sync::OnceLock;

/// Variables with a process's rank, and with the number of processes. The nearest starter's come first: torchrun may run
/// in a job of Slurm's.
const VARIABLES: [[&str; 2]; 5] = [
    ["RANK", "WORLD_SIZE"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI_RANK", "PMI_SIZE"],
    ["SLURM_PROCID", "SLURM_NTASKS"],
    ["LOCAL_RANK", "LOCAL_WORLD_SIZE"],
];

/// The rank; `None` for a process that is alone. The first call, when the library is loaded, reads the variables.
pub fn of_process() -> Option<u32> {
    static RANK: OnceLock<Option<u32>> = OnceLock::new();
    *RANK.get_or_init(|| read(|name| std::env::var_os(name)))
}

fn read(lookup: impl Fn(&str) -> Option<OsString>) -> Option<u32> {
    let number = |name| lookup(name)?.to_str()?.parse::<u32>().ok();
    VARIABLES.iter().find_map(|[rank, processes]| number(rank).filter(|_| number(processes) != Some(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(variables: &[(&str, &str)]) -> Option<u32> {
        read(|name| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn each_starter_tells_the_rank() {
        assert_eq!(rank(&[]), None);
        for [name, processes] in VARIABLES {
            assert_eq!(rank(&[(name, "3")]), Some(3), "{name}");
            assert_eq!(rank(&[(name, "3"), (processes, "8")]), Some(3), "{name}");
            // A process that is alone, as in an interactive job of Slurm's, has no others to be told from.
            assert_eq!(rank(&[(name, "0"), (processes, "1")]), None, "{name}");
            for wrong in ["", "-1", "1.5", "first", "4294967296", "\u{1b}[2J"] {
                assert_eq!(rank(&[(name, wrong)]), None, "{name}={wrong:?}");
            }
        }
        let in_slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("RANK", "5"), ("LOCAL_RANK", "1")];
        assert_eq!(rank(&in_slurm), Some(5));
        assert_eq!(rank(&[("RANK", "0"), ("WORLD_SIZE", "1"), ("SLURM_PROCID", "6"), ("SLURM_NTASKS", "8")]), Some(6));
    }
}
