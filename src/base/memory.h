// memory.h - how much memory this process may still take before the machine, or the memory cgroup
// that it runs in, runs out.
#ifndef FXI_BASE_MEMORY_H
#define FXI_BASE_MEMORY_H

#include <stdint.h>

// The least of what is left anywhere, in bytes:
//
//     on the machine                  MemAvailable
//     in each memory cgroup of this   limit - (usage - page cache that has not been used lately);
//     process, and in its ancestors   the kernel gives that cache back where memory is short
//
// `root` stands for "/": "" in production, a folder with files of the same names in tests. A file
// that is missing, or says nothing that makes sense, is no limit. Where MemAvailable is not known,
// all memory of the machine counts, so that there is an answer everywhere. 0: nothing is left, a
// cgroup is at its limit or above. Allocates nothing; from any thread.
uint64_t fxi_free_memory_bytes(const char *root);

#endif
