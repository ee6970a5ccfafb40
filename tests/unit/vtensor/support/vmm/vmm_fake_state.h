// vmm_fake_state.h - the state of the fake backend, shared by its two files: vmm_fake.c has chunks,
// addresses and mappings, vmm_fake_bytes.c what reads and writes bytes, and work beside the caller.
//
// Every call begins with enter and ends with leave, and holds the lock in between.
#ifndef VT_TEST_VMM_FAKE_STATE_H
#define VT_TEST_VMM_FAKE_STATE_H

#include <pthread.h>

#include "vmm_fake.h"
#include "vmm_fake_memory.h"
#include "vmm_fake_swap.h"
#include "vmm_fake_work.h"

// Microseconds, of the order that a host shows.
enum {
    VT_COST_RESERVE = 2,
    VT_COST_CREATE = 7,
    VT_COST_DESTROY = 13,
    VT_COST_MAP = 4,
    VT_COST_ALIAS = 1,
    VT_COST_PROTECT = 5,
    VT_COST_UNMAP = 6,
    VT_COST_BYTES = 2, // zero, fetch and store
    VT_COST_WAIT = 50,
    VT_COST_SWAP = 100,
};

typedef struct vt_fake {
    vt_vmm vmm;
    pthread_mutex_t mu; // guards all below
    pthread_t owner;    // that called configure
    vt_fake_chunks chunks;
    vt_fake_space space;
    vt_fake_swap swap;
    vt_fake_works work; // given to the device
    uint64_t max_runs, max_chunks;
    bool writable_aliases; // not can_protect
    bool dirty_create;
    bool async;
    uint64_t last_ticket;
    vt_fake_report now; // what is counted by call
    vt_fake_report *epitaph;
} vt_fake;

vt_fake *vt_fake_enter(const vt_vmm *vmm);
vt_fake *vt_fake_enter_at_cost(vt_vmm *vmm, uint64_t cost_us); // for a call of the table
vt_status vt_fake_leave(vt_fake *f, vt_status st);
// A call of the table that takes the lock, costs that much, and answers what `call` does.
#define VT_FAKE_CALL(name, cost_us, call, ...)            \
    vt_status name(vt_vmm *vmm, __VA_ARGS__)              \
    {                                                     \
        vt_fake *f = vt_fake_enter_at_cost(vmm, cost_us); \
        return vt_fake_leave(f, call);                    \
    }
vt_status vt_fake_breach(vt_fake *f, const char *what); // VT_EINVAL

// Of the table, in vmm_fake_bytes.c.
vt_status vt_fake_fetch(vt_vmm *vmm, uintptr_t dst, uint32_t slice, uint64_t index, size_t offset,
                        size_t size_bytes, vt_vmm_order order);
vt_status vt_fake_copy_each(vt_vmm *vmm, const vt_vmm_copy *copy, uint64_t n, vt_vmm_order order);
vt_status vt_fake_store(vt_vmm *vmm, uint32_t slice, uint64_t index, size_t offset, uintptr_t src,
                        size_t size_bytes);
vt_status vt_fake_zero(vt_vmm *vmm, uintptr_t addr, size_t size_bytes, vt_vmm_order order);
vt_status vt_fake_fence(vt_vmm *vmm, uint64_t *ticket);
vt_status vt_fake_passed(vt_vmm *vmm, uint64_t ticket, bool wait, bool *is_passed);
vt_status vt_fake_open_swap(vt_vmm *vmm, const char *dir, uint64_t size_bytes);
vt_status vt_fake_write_swap(vt_vmm *vmm, uint64_t offset, uintptr_t src, size_t size_bytes,
                             uint64_t *sum);
vt_status vt_fake_read_swap(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                            uint64_t *sum);
void vt_fake_drop_swap(vt_vmm *vmm, uint64_t offset, size_t size_bytes);

#endif
