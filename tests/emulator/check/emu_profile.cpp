// emu_profile.cpp - how well a kernel's accesses fit together, by source line, for one block:
//
//   EMU_PROFILE=KERNEL:BLOCK[:FILE]      the table goes to FILE, or to stderr
//
// The n-th time that the threads of a warp run an instruction is one request. Of global memory it
// costs the sectors of 32 bytes that it touches; of shared memory the passes that its busiest bank
// needs. `best` is what the same bytes would cost if they lay side by side.
#include "emu_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <string>

struct emu_request {
    uintptr_t at[32];
    unsigned lanes;
};

struct emu_line_cost {
    unsigned n_byte;
    bool writes, shared;
    std::vector<uint32_t> times;                                   // [thread]
    std::map<std::pair<uint32_t, unsigned>, emu_request> requests; // by time and warp
};

static std::map<std::pair<uintptr_t, int>, emu_line_cost> costs; // by instruction, or file and line
static std::string path;
static std::string kernel;
static long block = -1; // < 0: no profile

void emu_profile_launch(const char *name)
{
    const char *e = getenv("EMU_PROFILE");
    const size_t n = strlen(name);
    block = -1;
    costs.clear();
    if (!e || strncmp(e, name, n) != 0 || e[n] != ':') return;
    char *end;
    block = strtol(e + n + 1, &end, 10);
    path = *end == ':' ? end + 1 : "";
    kernel = name;
}

void emu_profile_note(uintptr_t at, unsigned n_byte, bool writes, bool shared, const emu_site &site)
{
    if (block != (long)emu_now->i_block) return;
    auto key = std::make_pair(site.pc ? site.pc : (uintptr_t)site.file, site.pc ? 0 : site.line);
    emu_line_cost &c = costs[key];
    if (c.times.empty())
        c.times.resize(EMU_MAX_THREAD), c.n_byte = n_byte, c.writes = writes, c.shared = shared;
    const unsigned thread = emu_now->i_thread;
    emu_request &r = c.requests[{c.times[thread]++, thread / 32}];
    r.at[thread & 31] = at;
    r.lanes |= 1u << (thread & 31);
}

// ---- costs of a request

static unsigned sectors_of(const emu_request &r, unsigned n_byte)
{
    std::set<uintptr_t> sectors;
    for (unsigned i = 0; i < 32; i++)
        for (unsigned b = 0; (r.lanes >> i & 1) && b < n_byte; b++)
            sectors.insert((r.at[i] + b) / 32);
    return (unsigned)sectors.size();
}

static unsigned best_sectors(const emu_request &r, unsigned n_byte)
{
    std::set<uintptr_t> bytes;
    for (unsigned i = 0; i < 32; i++)
        for (unsigned b = 0; (r.lanes >> i & 1) && b < n_byte; b++) bytes.insert(r.at[i] + b);
    return (unsigned)(bytes.size() + 31) / 32;
}

// Accesses of 8 and 16 bytes are done for 16 and 8 lanes at a time.
static unsigned passes_of(const emu_request &r, unsigned n_byte, unsigned *best)
{
    const unsigned at_once = n_byte >= 16 ? 8 : n_byte == 8 ? 16 : 32;
    unsigned passes = 0;
    *best = 0;
    for (unsigned first = 0; first < 32; first += at_once) {
        std::set<uintptr_t> words[32];
        size_t most = 0;
        for (unsigned i = first; i < first + at_once; i++)
            for (unsigned b = 0; (r.lanes >> i & 1) && b < n_byte; b += 4)
                words[(r.at[i] + b) / 4 % 32].insert((r.at[i] + b) / 4);
        for (const std::set<uintptr_t> &w : words) most = std::max(most, w.size());
        passes += (unsigned)most;
        *best += most > 0;
    }
    return passes;
}

static void print_line(FILE *f, const std::string &place, const emu_line_cost &c)
{
    uint64_t got = 0, ideal = 0;
    for (const auto &at : c.requests) {
        unsigned best;
        got += c.shared ? passes_of(at.second, c.n_byte, &best) : sectors_of(at.second, c.n_byte);
        ideal += c.shared ? best : best_sectors(at.second, c.n_byte);
    }
    const double n = (double)c.requests.size();
    fprintf(f, "%-28s %-6s %-5s %2u bytes %8zu requests %7.2f %s, best %7.2f%s\n", place.c_str(),
            c.shared ? "shared" : "global", c.writes ? "write" : "read", c.n_byte,
            c.requests.size(), (double)got / n, c.shared ? "passes" : "sectors", (double)ideal / n,
            got > 2 * ideal ? "  <--" : "");
}

static std::string place_of(const std::pair<uintptr_t, int> &key)
{
    const char *file = (const char *)key.first;
    int line = key.second;
    if (line == 0) emu_line_of(key.first, &file, &line);
    const char *slash = strrchr(file, '/');
    return std::string(slash ? slash + 1 : file) + ":" + std::to_string(line);
}

void emu_profile_end(void)
{
    if (block < 0 || costs.empty()) return;
    FILE *f = path.empty() ? stderr : fopen(path.c_str(), "w");
    if (!f) return;
    fprintf(f, "%s, block %ld\n", kernel.c_str(), block);
    for (const auto &c : costs) print_line(f, place_of(c.first), c.second);
    if (f != stderr) fclose(f);
    block = -1;
}
