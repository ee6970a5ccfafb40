// memory.h - how much memory this process may still take before the machine or its memory cgroup
// runs out, and how much there is at all.
#ifndef FXI_BASE_MEMORY_H
#define FXI_BASE_MEMORY_H

#include <stdint.h>

// The minimum, in bytes, of what is left
//
//     on the machine                  MemAvailable
//     in each memory cgroup of this   limit - (usage - inactive page cache, which the kernel
//     process and its ancestors       reclaims under pressure)
//
// `root` replaces "/": "" in production, a folder with files of the same names in tests. A file
// that is missing or makes no sense sets no limit. If MemAvailable is unknown, the machine's total
// memory counts. 0: nothing is left, a cgroup is at or above its limit. Allocates nothing; any
// thread.
uint64_t fxi_free_memory_bytes(const char *root);

// The most that this process could ever have: the machine's memory and swap, or the least limit of
// its cgroups. UINT64_MAX: nobody knows.
uint64_t fxi_whole_memory_bytes(const char *root);

#endif
