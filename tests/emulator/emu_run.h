// emu_run.h - what the files of the runtime share. The worker runs blocks, one after the
// other; a fiber is one CUDA thread of its block.
#pragma once
#include "emu_library.h"
#include "emu_thread.h"

#include <signal.h>
#include <vector>

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

enum {
    EMU_MAX_THREAD = 1024,
    EMU_STACK_BYTES = 256 << 10,
    EMU_MAX_SHARED = 227 << 10, // what an H100 gives a block
    EMU_MAX_FAULT = 16,         // of one launch
};

enum emu_state { EMU_READY, EMU_AT_BARRIER, EMU_IN_WARP, EMU_ENDED };

struct emu_copy {
    unsigned char *dst;
    const unsigned char *src;
    int group;
    const char *file;
    int line;
};

struct emu_fiber {
    emu_where where; // first: emu_now points here
    void *sp;
    char *stack;
    emu_state state;
    const char *file; // where it waits
    int line;
    unsigned mask;
    emu_warp_run *run;
    void *arg;
    std::vector<emu_copy> copies;
    int n_group; // committed
};

struct emu_order {
    int kind; // 0: ascending, 1: descending, 2: random
    uint64_t random;
};

struct emu_range {
    uintptr_t at;
    size_t n_byte;
    const char *name;
};

enum { EMU_SIGNAL_STACK_BYTES = 64 << 10 };

struct emu_worker {
    emu_fiber fiber[EMU_MAX_THREAD];
    unsigned n, n_live;
    uint32_t ready[EMU_MAX_THREAD / 32]; // lanes of each warp
    unsigned n_arrived;                  // at the barrier
    void *main_sp;
    emu_order order;
    bool abandoned; // the block does not go on
    const emu_launch *launch;
    unsigned char *dynamic_pages,
        *dynamic;                  // the end of what a launch has lies against a guard page
    std::vector<emu_range> shared; // static
    stack_t old_stack;
    char signal_stack[EMU_SIGNAL_STACK_BYTES];
};

extern __thread emu_worker *emu_mine EMU_API; // of this host thread, while it runs a launch

// emu_block.cpp
EMU_API bool emu_fiber_owns(const emu_fiber *f, uintptr_t at); // on its stack, or its guard page
EMU_API unsigned emu_warp_active(void);                        // lanes that have not ended
EMU_API void emu_block_run(emu_worker *w, unsigned i_block);
EMU_API void emu_block_abandon(void) __attribute__((noreturn)); // from a fiber

// emu_fault.cpp
EMU_API void emu_fault_begin(const emu_launch *l);
EMU_API bool emu_fault_is_full(void);
EMU_API int emu_fault_kind(void); // EMU_FAULT_* of the launch
EMU_API const char *emu_fault_text(void);
EMU_API void emu_fault_clear(void);
EMU_API void emu_fault_note(int kind, const char *file, int line, const char *what);
// FILE and line of an instruction: the innermost one outside of our headers that stand for one
// instruction. `file` lives as long as the program.
EMU_API void emu_line_of(uintptr_t pc, const char **file, int *line);
// SIGSEGV and SIGBUS of a fiber become faults, between begin and end.
EMU_API void emu_signal_begin(void);
EMU_API void emu_signal_end(void);
EMU_API void emu_signal_stack(emu_worker *w, bool on); // of this host thread

// What the checked runtime is told (emu_look.cpp; emu_look_none.cpp: nothing happens).
EMU_API bool emu_look_checked(void);
EMU_API void emu_look_launch(void);
EMU_API void emu_look_block(const emu_worker *w);
EMU_API void emu_look_barrier(void); // all threads of the block have met
EMU_API void emu_look_memory(uintptr_t at, size_t n_byte, int state);
