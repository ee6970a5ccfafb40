// host_ranks.c - see host_ranks.h.
#include "unit/model/host_ranks.h"

#include "unit/cmocka_all.h"

#include "model/host/host.h"

static host_ranks *hosts_of(fxi_device *d)
{
    return (host_ranks *)d;
}

static void close_hosts(fxi_device *d)
{
    host_ranks *r = hosts_of(d);
    for (int k = 0; k < r->set.n; k++) r->rank[k]->ops->close(r->rank[k]);
}

static fx_status take_of_host(fxi_device *d, size_t size_bytes, void **out, fx_error *err)
{
    fxi_device *first = hosts_of(d)->rank[0];
    return first->ops->take_host(first, size_bytes, out, err);
}

static fx_status wait_hosts(fxi_device *d, fx_error *err)
{
    host_ranks *r = hosts_of(d);
    for (int k = 0; k < r->set.n; k++) FX_TRY(r->rank[k]->ops->wait(r->rank[k], err));
    return FX_OK;
}

static const fxi_device_ops hosts_ops = {
    .close = close_hosts, .take_host = take_of_host, .wait = wait_hosts};

static fx_status sum_hosts(fxi_device *d, fx_error *err)
{
    host_ranks *r = hosts_of(d);
    const fxi_host *first = fxi_host_of(r->rank[0]);
    const size_t n = (size_t)first->n_row * (size_t)first->m->model.shape.dim;
    (void)err;
    r->n_sum++;
    for (size_t i = 0; i < n; i++) {
        float sum = first->s.h[i];
        for (int k = 1; k < r->set.n; k++) sum += fxi_host_of(r->rank[k])->s.h[i];
        for (int k = 0; k < r->set.n; k++) fxi_host_of(r->rank[k])->s.h[i] = sum;
    }
    return FX_OK;
}

static void go_on(fxi_device *d)
{
    (void)d; // no step of a host fails
}

void host_ranks_open(host_ranks *r, int n, fxi_pool *pool, const char *kernel_path)
{
    fx_error err = {0};
    *r = (host_ranks){.dev = {.ops = &hosts_ops, .name = "hosts", .path = "hosts"},
                      .set = {.device = r->rank, .sum = sum_hosts, .give_up = go_on}};
    r->dev.ranks = &r->set;
    for (; r->set.n < n; r->set.n++)
        if (fxi_host_device_open(pool, kernel_path, &r->rank[r->set.n], &err) != FX_OK)
            fail_msg("%s", err.text);
}

float *host_ranks_run(runner_model m, int n, const variant *v, int n_tok, int *n_out, fx_error *err)
{
    runner r = {0};
    host_ranks hosts;
    float *out = NULL;
    assert_int_equal(fxi_pool_create(v->n_thread, &r.pool, err), FX_OK);
    host_ranks_open(&hosts, n, r.pool, v->kernel_path);
    if (runner_open_on(&r, &hosts.dev, m, v, err)) {
        out = runner_run(&r, v, n_tok);
        *n_out = r.n_out;
        assert_true(hosts.n_sum > 0);
    }
    fxi_kv_close(r.kv);
    fxi_model_free(r.model);
    hosts.dev.ops->close(&hosts.dev);
    fxi_pool_destroy(r.pool);
    return out;
}
