// emu_fault.cpp - faults of kernels as lines of text. Nothing is printed unless EMU_PRINT is set.
#include "emu_run.h"

#include <mutex>
#include <set>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>

static std::mutex mu; // guards what follows
static std::string text;
static std::set<std::string> told; // of this launch: place and kind of what was found
static int n_fault, worst_kind;
static const char *kernel_name = "?";

void emu_fault_begin(const emu_launch *l)
{
    std::lock_guard<std::mutex> lock(mu);
    told.clear();
    n_fault = 0;
    worst_kind = EMU_FAULT_NONE;
    kernel_name = l->kernel->name;
}

bool emu_fault_is_full(void)
{
    std::lock_guard<std::mutex> lock(mu);
    return n_fault >= EMU_MAX_FAULT;
}

int emu_fault_kind(void)
{
    std::lock_guard<std::mutex> lock(mu);
    return worst_kind;
}

const char *emu_fault_text(void)
{
    return text.c_str();
}

void emu_fault_clear(void)
{
    std::lock_guard<std::mutex> lock(mu);
    text.clear();
}

static std::string where_text(void)
{
    if (!emu_now) return "";
    char where[128];
    const uint3 b = emu_now->block, t = emu_now->thread;
    snprintf(where, sizeof where, " (block %u,%u,%u thread %u,%u,%u)", b.x, b.y, b.z, t.x, t.y,
             t.z);
    return where;
}

// One line for each place and kind of fault: what differs between them are addresses and numbers.
void emu_fault_note(int kind, const char *file, int line, const char *what)
{
    std::lock_guard<std::mutex> lock(mu);
    const char *slash = file ? strrchr(file, '/') : nullptr;
    std::string place = slash ? slash + 1 : file ? file : "?";
    place += ":" + std::to_string(line) + ": ";
    if (kind > worst_kind) worst_kind = kind;
    if (!told.insert(place + std::string(what).substr(0, 16)).second) return;
    n_fault++;
    std::string row = std::string(kernel_name) + ": " + place + what + where_text() + "\n";
    text += row;
    if (getenv("EMU_PRINT")) fputs(row.c_str(), stderr);
}

void emu_fail_at(const char *file, int line, const char *format, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    emu_fault_note(EMU_FAULT_LAUNCH, file, line, what);
}
