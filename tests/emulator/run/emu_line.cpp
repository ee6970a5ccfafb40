// emu_line.cpp - the line of an instruction, asked of addr2line, which every compiler's toolchain has.
#include "emu_run.h"

#include <dlfcn.h>
#include <map>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <string>

struct emu_place {
    std::string file;
    int line;
};

// Headers whose functions stand for one instruction: the line that counts is that of the caller.
static bool is_helper(const std::string &file)
{
    size_t slash = file.rfind('/');
    std::string name = slash == std::string::npos ? file : file.substr(slash + 1);
    return name == "ptx.h" || name.compare(0, 4, "emu_") == 0 || name.compare(0, 5, "cuda_") == 0;
}

static emu_place ask_tool(uintptr_t pc)
{
    Dl_info info;
    emu_place found = {"?", 0};
    if (!dladdr((void *)pc, &info)) return found;
    char command[4400], row[4400];
    snprintf(command, sizeof command, "addr2line -i -e '%s' %#lx 2>/dev/null", info.dli_fname,
             (unsigned long)(pc - (uintptr_t)info.dli_fbase));
    FILE *p = popen(command, "r");
    if (!p) return found;
    for (bool done = false; fgets(row, sizeof row, p);) { // the innermost function comes first
        char *colon = strrchr(row, ':');
        if (done || !colon) continue;
        *colon = 0;
        found = {row, atoi(colon + 1)};
        done = !is_helper(found.file);
    }
    pclose(p);
    return found;
}

void emu_line_of(uintptr_t pc, const char **file, int *line)
{
    static std::mutex mu;
    static std::map<uintptr_t, emu_place> known;
    std::lock_guard<std::mutex> lock(mu);
    auto at = known.find(pc);
    if (at == known.end()) at = known.emplace(pc, ask_tool(pc)).first;
    *file = at->second.file.c_str();
    *line = at->second.line;
}
