// gather.c - an engine that was idle waits a little for companions of its first request, so that
// they share its first pass.
//
// Requests seldom come in the same instant. Where several clients have got the end of an answer in
// one step and ask again, their requests are some 100 us apart. If the first one begins a pass of
// 70 ms alone, the others are a pass behind it from then on: each round of answers then takes more
// passes, with fewer rows in each, and beside those that decode prompts are cut (plan.c).
//
//   how long    1 % of what the first pass is expected to take, by the measured rate of prompts and
//               what the prefix cache has of them, less what a timer is late by; 2 ms at most. Each
//               companion makes the pass longer, and so the wait. A pass under 10 ms waits for
//               nobody
//   who waits   those that found the engine idle. Where sequences run, or groups wait that found no
//               room, nobody is delayed
//   what ends   the time; a pass that is full, or as many sequences as may run; a request that has
//   the wait    nothing to compute; a cancelled one, or the end of the engine, at once
//
// So nobody loses more than 1 % of the pass that has its prompt. What is computed is the same: who
// shares a pass changes no bit. The engine's thread alone waits; whoever runs turns by hand decides
// himself when.
#include "engine/engine.h"
#include "engine/loop/loop.h"
#include "engine/memory/room.h"

#define SHARE   0.01 // of the first pass
#define MOST_US 2000
#define LATE_US 100 // what timers, and the thread that they wake, are late by

// Tokens of its prompt that the first pass has to compute; 0: it is not to be delayed.
static int first_tok(fx_engine *eng, fxi_group *g)
{
    const fxi_seq *s = &g->seq[0];
    if (s->finish != FX_FINISH_NONE || fxi_cache_open_domain(eng, g) != FX_OK) return 0;
    return s->n_tok - fxi_cache_hit(eng, s);
}

// Of all that wait; 0: there is nothing to wait for.
static int pass_tok(fx_engine *eng)
{
    int64_t sum = 0;
    if (eng->waiting.n_seq >= eng->opt.max_seq) return 0;
    for (fxi_group *g = eng->waiting.head; g; g = g->next) {
        const int n_tok = first_tok(eng, g);
        sum += n_tok;
        if (!n_tok || sum >= eng->opt.step_tok) return 0;
    }
    return (int)sum;
}

static uint64_t patience_us(fx_engine *eng)
{
    const double us = SHARE * eng->us_per_tok * pass_tok(eng);
    return us >= MOST_US ? MOST_US - LATE_US : us > LATE_US ? (uint64_t)us - LATE_US : 0;
}

uint64_t fxi_gather_wait_us(fx_engine *eng)
{
    if (!eng->waiting.head) eng->is_gathering = false; // they were cancelled
    const bool begins = !eng->is_gathering;
    const bool none_waits = !eng->waiting.head && !eng->aside.head;
    eng->is_gathering = !eng->running.head && (!begins || none_waits);
    if (!eng->is_gathering) return 0;
    fxi_turn_collect(eng);
    const uint64_t now_us = fxi_now_us(eng), most_us = patience_us(eng);
    if (begins) eng->gather_since_us = now_us;
    const uint64_t waited_us = now_us - eng->gather_since_us;
    eng->is_gathering = waited_us < most_us;
    return eng->is_gathering ? most_us - waited_us : 0;
}
