//! Where the memories, tables and stacks of instances come from.
//!
//! To map and unmap them for each call takes longer than most calls: other threads have to be told
//! each time. So there is room for as many instances as may run, taken once, and of what an instance
//! leaves the first pages are wiped and kept.

use wasmtime::{InstanceAllocationStrategy, PoolingAllocationConfig};

use super::MAX_INSTANCES;

/// Modules of one component that are instances at the same time; those that bring a language have a
/// few dozen.
const MODULES: u32 = 64;
/// Memories of one component. Nearly all have one.
const MEMORIES: u32 = 8;
const TABLES: u32 = 32;
/// References of one table: a language has some ten thousand functions.
const REFERENCES: usize = 1 << 18;
/// Bytes of what the engine knows of one instance.
const INSTANCE: usize = 16 << 20;
/// Bytes of a memory, and of a table, that stay for the next instance.
const KEPT: usize = 64 << 10;

pub(super) fn strategy() -> InstanceAllocationStrategy {
    let all = |each: u32| each.saturating_mul(u32::try_from(MAX_INSTANCES).unwrap_or(u32::MAX));
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(all(1))
        .max_component_instance_size(INSTANCE)
        .max_core_instances_per_component(MODULES)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .total_core_instances(all(MODULES))
        .max_core_instance_size(INSTANCE)
        .total_memories(all(MEMORIES))
        .max_memories_per_module(MEMORIES)
        .total_tables(all(TABLES))
        .max_tables_per_module(TABLES)
        .table_elements(REFERENCES)
        .total_stacks(all(1))
        .linear_memory_keep_resident(KEPT)
        .table_keep_resident(KEPT);
    InstanceAllocationStrategy::Pooling(pool)
}
