// metrics_text.c - figures in the text exposition format of Prometheus, version 0.0.4: for each
// metric a line of help, its type, then its samples. Buckets of histograms are cumulative, and the
// last one is "+Inf".
#include "server/metrics/metrics.h"

#include <inttypes.h>
#include <stdio.h>

#define PREFIX     "flexinfer_"
#define MAX_LABELS 160 // bytes of the labels of one sample

static bool begin_metric(fxi_buf *b, const char *name, const char *kind, const char *help)
{
    return fxi_buf_fmt(b, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", name, help, name,
                       kind);
}

static double value_at(const fxi_metric *m, const void *p)
{
    return (m->is_f64 ? *(const double *)p : (double)*(const uint64_t *)p) * m->scale;
}

// Whole numbers are printed exactly; 17 digits tell every double apart.
static bool add_sample(fxi_buf *b, const fxi_metric *m, const char *labels, const void *p)
{
    if (m->is_f64 || m->scale != 1)
        return fxi_buf_fmt(b, PREFIX "%s%s %.17g\n", m->name, labels, value_at(m, p));
    return fxi_buf_fmt(b, PREFIX "%s%s %" PRIu64 "\n", m->name, labels, *(const uint64_t *)p);
}

static double sum_scale(const fxi_metric *m)
{
    return m->is_f64 ? 1e-6 : m->scale;
}

static bool add_histogram(fxi_buf *b, const fxi_metric *m, const fx_histogram *h)
{
    uint64_t n = 0;
    bool ok = true;
    for (int i = 0; ok && i < FX_N_BUCKET; i++) {
        n += h->count[i];
        ok = fxi_buf_fmt(b, PREFIX "%s_bucket{le=\"%.10g\"} %" PRIu64 "\n", m->name,
                         m->scale * (double)((uint64_t)1 << i), n);
    }
    n += h->count[FX_N_BUCKET];
    return ok && fxi_buf_fmt(b,
                             PREFIX "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n" PREFIX
                                    "%s_sum %.17g\n" PREFIX "%s_count %" PRIu64 "\n",
                             m->name, n, m->name, (double)h->sum * sum_scale(m), m->name, n);
}

typedef struct text_page {
    fxi_buf *b;
    const char *base; // the figures
    const char *const *route;
    int n_route;
} text_page;

// Requests without a route come after those with one.
static const char *label_value(const text_page *t, const fxi_label *l, int i)
{
    if (l->value) return l->value[i];
    return i < t->n_route ? t->route[i] : "other";
}

static int label_count(const text_page *t, const fxi_label *l)
{
    return l->value ? l->n : t->n_route + 1;
}

// With two labels, only what has happened is shown.
static bool add_pairs(const text_page *t, const fxi_metric *m, int i)
{
    char labels[MAX_LABELS];
    bool ok = true;
    for (int k = 0; ok && k < m->label2->n; k++) {
        const char *p = t->base + m->offset + (size_t)i * m->stride_bytes;
        const uint64_t *v = (const uint64_t *)(const void *)p + k;
        if (!*v) continue;
        snprintf(labels, sizeof labels, "{%s=\"%s\",%s=\"%s\"}", m->label->name,
                 label_value(t, m->label, i), m->label2->name, label_value(t, m->label2, k));
        ok = add_sample(t->b, m, labels, v);
    }
    return ok;
}

static bool add_labelled(const text_page *t, const fxi_metric *m)
{
    char labels[MAX_LABELS];
    bool ok = true;
    for (int i = 0; ok && i < label_count(t, m->label); i++) {
        if (m->label2) {
            ok = add_pairs(t, m, i);
            continue;
        }
        snprintf(labels, sizeof labels, "{%s=\"%s\"}", m->label->name, label_value(t, m->label, i));
        ok = add_sample(t->b, m, labels, t->base + m->offset + (size_t)i * m->stride_bytes);
    }
    return ok;
}

static bool add_metric(const text_page *t, const fxi_metric *m)
{
    static const char *const kind[] = {"counter", "gauge", "histogram"};
    const void *at = t->base + m->offset;
    if (!begin_metric(t->b, m->name, kind[m->kind], m->help)) return false;
    if (m->kind == FXI_HISTOGRAM) return add_histogram(t->b, m, at);
    return m->label ? add_labelled(t, m) : add_sample(t->b, m, "", at);
}

bool fxi_metrics_text(fxi_buf *b, const fxi_figures *s, const char *const *route, int n_route)
{
    const text_page t = {b, (const char *)s, route, n_route};
    bool ok = true;
    for (int i = 0; ok && i < fxi_n_metric; i++) ok = add_metric(&t, &fxi_metric_table[i]);
    return ok;
}

// Of a label's value, backslash, quote and newline are escaped.
static bool add_escaped(fxi_buf *b, const char *s)
{
    bool ok = true;
    for (; ok && *s; s++) {
        if (*s == '\n')
            ok = fxi_buf_str(b, "\\n");
        else
            ok = fxi_buf_fmt(b, *s == '\\' || *s == '"' ? "\\%c" : "%c", *s);
    }
    return ok;
}

bool fxi_metrics_info(fxi_buf *b, const char *name, const char *help, const char *const *pair,
                      int n_pair)
{
    bool ok = begin_metric(b, name, "gauge", help) && fxi_buf_fmt(b, PREFIX "%s", name);
    for (int i = 0; ok && i < n_pair; i++)
        ok = fxi_buf_fmt(b, "%c%s=\"", i ? ',' : '{', pair[2 * i]) &&
             add_escaped(b, pair[2 * i + 1]) && fxi_buf_str(b, "\"");
    return ok && fxi_buf_str(b, "} 1\n");
}
