// simulated_memory.h - a backend of libvtensor (vtensor/vmm.h) without memory: addresses are
// numbers, and chunks are counted. So a manager runs with budgets of any size, and what its calls
// would have cost on a device is added up.
#ifndef FXI_LAB_SIMULATED_MEMORY_H
#define FXI_LAB_SIMULATED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vtensor/vmm.h"

// Microseconds of a call, and of a gigabyte that it moves.
typedef struct fxi_memory_costs {
    double reserve_us, create_us, map_us, protect_us, unmap_us;
    double copy_us_per_gb, swap_us_per_gb;
} fxi_memory_costs;

typedef struct fxi_simulated_memory {
    uint64_t created_bytes, mapped_bytes; // now
    uint64_t n_call;                      // calls that change something, so far
    uint64_t swapped_bytes;               // so far, out and in
    double owner_us;                      // of the calls that a step waited for
    double beside_us;                     // of the others
    bool is_beside; // the calls from now on run in parallel with the pass: no step waits
} fxi_simulated_memory;

// `costs` is copied. NULL: no memory.
vt_vmm *fxi_simulated_memory_open(size_t granularity, const fxi_memory_costs *costs);
// The counters of such a backend, as long as it is open.
fxi_simulated_memory *fxi_simulated_memory_of(vt_vmm *vmm);

#endif
