// memory.h - how much memory this process may still take before the machine or its memory cgroup
// runs out, how much there is at all, and what of it core dumps have.
#ifndef FXI_BASE_MEMORY_H
#define FXI_BASE_MEMORY_H

#include <stdint.h>

// The minimum, in bytes, of what is left
//
//     on the machine                  MemAvailable
//     in each memory cgroup of this   limit - (usage - page cache of files, which the kernel
//     process and its ancestors       reclaims under pressure)
//
// `root` replaces "/": "" in production, a folder with files of the same names in tests. A file
// that is missing or makes no sense sets no limit. If MemAvailable is unknown, the machine's total
// memory counts. 0: nothing is left, a cgroup is at or above its limit. Allocates nothing; any
// thread.
uint64_t fxi_free_memory_bytes(const char *root);

// The same of the cgroups alone. UINT64_MAX: none has a limit.
uint64_t fxi_group_left_bytes(const char *root);

// The most that this process could ever have: the machine's memory and swap, or the least limit of
// its cgroups. UINT64_MAX: unknown.
uint64_t fxi_whole_memory_bytes(const char *root);

// Leaves shared memory out of this process's core dumps: a dump would have the KV cache once for
// each sequence that maps it, with what users wrote. A filter other than the system's preset is
// kept: it was chosen.
void fxi_core_dump_shrink(const char *root);

#endif
