// emu_look_none.cpp - the plain runtime looks at nothing.
#include "emu_run.h"

bool emu_look_checked(void)
{
    return false;
}
void emu_look_access(const void *, unsigned, int, const char *, int)
{
}
void emu_look_sync(unsigned)
{
}
void emu_look_launch(void)
{
}
void emu_look_block(const emu_worker *)
{
}
void emu_look_barrier(void)
{
}
void emu_look_memory(uintptr_t, size_t, int)
{
}
