// replay_print.c - a row for each manager: how fast, how long, and where the memory was.
#include "cli/bench/replay_print.h"

#include <inttypes.h>

static double to_gb(double bytes)
{
    return bytes / 1e9;
}

// A column: its name and unit in CSV, how the table shows it, and its value.
typedef double figure_fn(const fxi_replay_figures *f);

#define FIGURE(name, expr)                                \
    static double fig_##name(const fxi_replay_figures *f) \
    {                                                     \
        return expr;                                      \
    }
FIGURE(done, (double)f->n_done)
FIGURE(refused, (double)f->n_refused)
FIGURE(end, f->end_s)
FIGURE(request_rate, f->end_s > 0 ? (double)f->n_done / f->end_s : 0)
FIGURE(token_rate, f->end_s > 0 ? (double)f->n_output_tok / f->end_s : 0)
FIGURE(batch, f->mean_batch)
FIGURE(first_p50, f->first_s.p50)
FIGURE(first_p99, f->first_s.p99)
FIGURE(per_tok, f->per_tok_s.mean)
FIGURE(per_tok_p99, f->per_tok_s.p99)
FIGURE(hits, f->n_prompt_tok ? 100.0 * (double)f->n_cached_tok / (double)f->n_prompt_tok : 0)
FIGURE(recomputed, (double)f->n_preempt_recompute)
FIGURE(swapped, (double)f->n_preempt_swap)
FIGURE(budget, to_gb((double)f->budget_bytes))
FIGURE(mapped, to_gb(f->mean_mapped_bytes))
FIGURE(live, to_gb(f->mean_live_bytes))
FIGURE(cached, to_gb(f->mean_cached_bytes))
FIGURE(peak, to_gb((double)f->peak_mapped_bytes))
FIGURE(driver, f->driver_s)
#undef FIGURE

static const struct replay_column {
    const char *csv, *head;
    int width, digits; // of the table; width 0: only in CSV
    figure_fn *value;
} columns[] = {
    {"requests_done", "done", 7, 0, fig_done},
    {"requests_refused", NULL, 0, 0, fig_refused},
    {"virtual_s", "time s", 9, 1, fig_end},
    {"requests_per_s", "req/s", 7, 2, fig_request_rate},
    {"output_tokens_per_s", "tokens/s", 9, 0, fig_token_rate},
    {"mean_batch", "batch", 7, 1, fig_batch},
    {"first_token_p50_s", "first p50", 10, 3, fig_first_p50},
    {"first_token_p99_s", "p99 s", 9, 3, fig_first_p99},
    {"s_per_token_mean", "s/token", 9, 4, fig_per_tok},
    {"s_per_token_p99", NULL, 0, 0, fig_per_tok_p99},
    {"prefix_hits_percent", "hits %", 7, 1, fig_hits},
    {"preempted_recompute", "again", 6, 0, fig_recomputed},
    {"preempted_swap", "swap", 6, 0, fig_swapped},
    {"budget_gb", NULL, 0, 0, fig_budget},
    {"mapped_mean_gb", "mapped", 8, 2, fig_mapped},
    {"live_mean_gb", "live", 8, 2, fig_live},
    {"cached_mean_gb", "cached GB", 10, 2, fig_cached},
    {"mapped_peak_gb", NULL, 0, 0, fig_peak},
    {"driver_wait_s", NULL, 0, 0, fig_driver},
};
enum { N_COLUMN = sizeof columns / sizeof *columns };

void fxi_replay_print_head(const fxi_replay_options *o, const char *trace)
{
    const uint64_t budget =
        o->kv_bytes ? o->kv_bytes : fxi_setting_kv_bytes(o->geometry, o->device);
    printf("trace    %s", trace);
    if (o->rate_per_s > 0) printf(", %.3g requests/s", o->rate_per_s);
    printf("\nsetting  %s on %s, %.2f GB of KV memory in pages of %zu KiB, virtual time\n\n%-14s",
           o->geometry->name, o->device->name, to_gb((double)budget), o->page_bytes >> 10,
           "manager");
    for (int i = 0; i < N_COLUMN; i++)
        if (columns[i].width) printf("%*s", columns[i].width, columns[i].head);
    printf("\n");
}

void fxi_replay_print_row(const char *manager, const fxi_replay_figures *f)
{
    printf("%-14s", manager);
    for (int i = 0; i < N_COLUMN; i++)
        if (columns[i].width)
            printf("%*.*f", columns[i].width, columns[i].digits, columns[i].value(f));
    printf("\n");
}

void fxi_replay_print_csv_head(void)
{
    printf("trace,manager,model,device,page_kib,rate_per_s");
    for (int i = 0; i < N_COLUMN; i++) printf(",%s", columns[i].csv);
    printf("\n");
}

void fxi_replay_print_csv_row(const fxi_replay_options *o, const char *trace,
                              const fxi_replay_figures *f)
{
    printf("%s,%s,%s,%s,%zu,%g", trace, o->manager, o->geometry->name, o->device->name,
           o->page_bytes >> 10, o->rate_per_s);
    for (int i = 0; i < N_COLUMN; i++) printf(",%.9g", columns[i].value(f));
    printf("\n");
}

void fxi_replay_print_timeline_head(FILE *to)
{
    fprintf(to, "manager,at_s,running,waiting,mapped_bytes,live_bytes,cached_bytes\n");
}

void fxi_replay_print_timeline(FILE *to, const char *manager, const fxi_replay_figures *f)
{
    for (const fxi_replay_sample *s = f->sample; s < f->sample + f->n_sample; s++)
        fprintf(to, "%s,%.6g,%d,%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", manager, s->at_s,
                s->n_running, s->n_waiting, s->mapped_bytes, s->live_bytes, s->cached_bytes);
}
