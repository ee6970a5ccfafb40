// emu_tsan.cpp - the functions that the compiler calls where a kernel touches memory: those of
// -fsanitize=thread, and the one of -fsanitize=alignment.
#include "emu_check.h"

// The instruction before the one that the call returns to.
#define CALLER (emu_site{(uintptr_t)__builtin_return_address(0) - 1, nullptr, 0})

extern "C" {

#define EMU_READS(name, n)                               \
    EMU_API void name(void *at);                         \
    void name(void *at)                                  \
    {                                                    \
        emu_look_at((uintptr_t)at, n, EMU_READ, CALLER); \
    }
#define EMU_WRITES(name, n)                               \
    EMU_API void name(void *at);                          \
    void name(void *at)                                   \
    {                                                     \
        emu_look_at((uintptr_t)at, n, EMU_WRITE, CALLER); \
    }
#define EMU_SIZE(n)                                 \
    EMU_READS(__tsan_read##n, n)                    \
    EMU_READS(__tsan_unaligned_read##n, n)          \
    EMU_READS(__tsan_volatile_read##n, n)           \
    EMU_READS(__tsan_unaligned_volatile_read##n, n) \
    EMU_WRITES(__tsan_write##n, n)                  \
    EMU_WRITES(__tsan_unaligned_write##n, n)        \
    EMU_WRITES(__tsan_volatile_write##n, n)         \
    EMU_WRITES(__tsan_unaligned_volatile_write##n, n)
EMU_SIZE(1)
EMU_SIZE(2)
EMU_SIZE(4)
EMU_SIZE(8)
EMU_SIZE(16)

EMU_API void __tsan_init(void);
void __tsan_init(void)
{
}
EMU_API void __tsan_func_entry(void *);
void __tsan_func_entry(void *)
{
}
EMU_API void __tsan_func_exit(void *);
void __tsan_func_exit(void *)
{
}

EMU_API void __tsan_read_range(void *at, unsigned long n);
void __tsan_read_range(void *at, unsigned long n)
{
    emu_look_at((uintptr_t)at, (unsigned)n, EMU_READ, CALLER);
}

EMU_API void __tsan_write_range(void *at, unsigned long n);
void __tsan_write_range(void *at, unsigned long n)
{
    emu_look_at((uintptr_t)at, (unsigned)n, EMU_WRITE, CALLER);
}

EMU_API void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memcpy(void *to, const void *from, size_t n)
{
    emu_look_at((uintptr_t)from, (unsigned)n, EMU_READ, CALLER);
    emu_look_at((uintptr_t)to, (unsigned)n, EMU_WRITE, CALLER);
    return memcpy(to, from, n);
}

EMU_API void *__tsan_memset(void *at, int value, size_t n);
void *__tsan_memset(void *at, int value, size_t n)
{
    emu_look_at((uintptr_t)at, (unsigned)n, EMU_WRITE, CALLER);
    return memset(at, value, n);
}

// What the compiler says of a check: the place, the type, the alignment.
struct emu_mismatch {
    const char *file;
    uint32_t line, column;
    const void *type;
    unsigned char log_align, kind;
};

EMU_API void __ubsan_handle_type_mismatch_v1(const emu_mismatch *m, uintptr_t at);
void __ubsan_handle_type_mismatch_v1(const emu_mismatch *m, uintptr_t at)
{
    const unsigned align = 1u << m->log_align;
    if (at % align != 0)
        emu_look_fault(CALLER, EMU_FAULT_ADDRESS,
                       "an access at %#lx, which is not a multiple of %u", (unsigned long)at,
                       align);
}
}
