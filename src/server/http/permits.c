// permits.c - what the server grants now: work at all, and a priority.
#include "server/http/http.h"

bool fxi_http_fail_loading(fxi_http_error *err)
{
    return fxi_http_fail(err, 503, "loading", NULL, "the model is loading");
}

bool fxi_permit_work(fxi_server *srv, fxi_http_error *err)
{
    if (!srv->eng) return fxi_http_fail_loading(err);
    if (!srv->draining) return true;
    return fxi_http_fail(err, 503, "draining", NULL, "the server is shutting down");
}

bool fxi_permit_request(fxi_server *srv, fxi_http_error *err)
{
    if (!srv->asleep) return fxi_permit_work(srv, err);
    return fxi_http_fail(err, 503, "sleeping", NULL, "the server sleeps until POST /wake_up");
}

// What stays longer in the cache pushes out what others have there; an admin's endpoint may do so.
bool fxi_permit_priority(const fxi_http_job *job, const fx_request *req, fxi_http_error *err)
{
    const int max = job->srv->opt.allow_priority ? FX_MAX_PRIORITY : job->tenant->max_priority;
    if (req->priority > max)
        return fxi_http_fail(err, 403, "priority_not_allowed", "priority",
                             "priority must be %d or more here: lower ones go first", -max);
    if (req->keep_priority > max && job->route->access != FXI_ACCESS_ADMIN)
        return fxi_http_fail(err, 403, "priority_not_allowed", "keep_priority",
                             "keep_priority must be %d or less here", max);
    return true;
}
