// replay_print.c - a row for each manager: how fast, how long, and where the memory was.
#include "lab/lab.h"

#include "base/text/str.h"

#include <string.h>

static double to_gb(double bytes)
{
    return bytes / 1e9;
}

static double of_budget(const fxi_replay_figures *f, double bytes)
{
    return 100 * bytes / (double)f->budget_bytes;
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
FIGURE(mapped, to_gb(f->mean.mapped))
FIGURE(live, to_gb(f->mean.live))
FIGURE(cached, to_gb(f->mean.cached))
FIGURE(peak, to_gb(f->peak_mapped_bytes))
FIGURE(used_percent, of_budget(f, f->mean.used))
FIGURE(reserved_percent, of_budget(f, f->mean.reserved))
FIGURE(internal_percent, of_budget(f, f->mean.internal))
FIGURE(external_percent, of_budget(f, f->mean.external))
FIGURE(cached_percent, of_budget(f, f->mean.cached))
FIGURE(spare_percent, of_budget(f, f->mean.spare))
FIGURE(shared_percent, f->mean.live > 0 ? 100 * (1 - f->mean.used / f->mean.live) : 0)
FIGURE(driver_percent, f->end_s > 0 ? 100 * f->driver_s / f->end_s : 0)
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
    {"driver_percent", NULL, 0, 0, fig_driver_percent},
    {"used_percent", "used %", 8, 1, fig_used_percent},
    {"reserved_percent", "reserved", 9, 1, fig_reserved_percent},
    {"internal_percent", "internal", 9, 1, fig_internal_percent},
    {"external_percent", "external", 9, 1, fig_external_percent},
    {"cached_percent", NULL, 0, 0, fig_cached_percent},
    {"spare_percent", NULL, 0, 0, fig_spare_percent},
    {"shared_percent", NULL, 0, 0, fig_shared_percent},
};
enum { N_COLUMN = sizeof columns / sizeof *columns };

void fxi_replay_print_head(const fxi_replay_setting *s)
{
    printf("trace    %s", s->trace);
    if (s->load->rate_per_s > 0) printf(", %.3g requests/s", s->load->rate_per_s);
    printf("\nsetting  %s on %s, ", s->model, s->device);
    if (s->budget_bytes) printf("%.2f GB of KV memory, ", to_gb((double)s->budget_bytes));
    printf("pages of %zu KiB\n\n%-14s", s->page_bytes >> 10, "manager");
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

// "mooncake_synthetic" of "some/folder/mooncake_synthetic.part.csv".
static fxi_str trace_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path, *dot = strchr(name, '.');
    return (fxi_str){name, dot && dot != name ? (size_t)(dot - name) : strlen(name)};
}

void fxi_replay_print_csv_head(void)
{
    printf("trace,manager,model,device,page_kib,rate_per_s,max_seq,choices,beams,prefix_tokens,"
           "block_tokens,"
           "preempt");
    for (int i = 0; i < N_COLUMN; i++) printf(",%s", columns[i].csv);
    printf("\n");
}

void fxi_replay_print_csv_row(const fxi_replay_setting *s, const fxi_replay_figures *f)
{
    const fxi_str name = trace_name(s->trace);
    const fxi_load *l = s->load;
    printf("%.*s,%s,%s,%s,%zu,%g,%d,%d,%d,%d,%d,%s", (int)name.n, name.p, s->manager, s->model,
           s->device, s->page_bytes >> 10, l->rate_per_s, s->max_seq, l->n_choice, l->beam_width,
           l->prefix_tok, s->block_tok, s->swaps ? "swap" : "recompute");
    for (int i = 0; i < N_COLUMN; i++) printf(",%.9g", columns[i].value(f));
    printf("\n");
}

void fxi_replay_print_timeline_head(FILE *to)
{
    fprintf(to, "manager,at_s,running,waiting,mapped_gb,live_gb,cached_gb\n");
}

void fxi_replay_print_timeline(FILE *to, const char *manager, const fxi_replay_figures *f)
{
    for (const fxi_replay_sample *s = f->sample; s < f->sample + f->n_sample; s++)
        fprintf(to, "%s,%.6g,%d,%d,%.6g,%.6g,%.6g\n", manager, s->at_s, s->state.n_running,
                s->state.n_waiting, to_gb(s->state.kv.mapped), to_gb(s->state.kv.live),
                to_gb(s->state.kv.cached));
}
