// api_request.c - a request body to parameters: JSON, fields, the checks between them.
#include "server/request/api_request.h"

#include <stdlib.h>

#include "server/request/api_fields.h"

static fxi_params default_params(fxi_api api)
{
    return (fxi_params){.api = api,
                        .max_tok = -1,
                        .max_completion_tok = -1,
                        .n = 1,
                        .best_of = -1,
                        .temperature = 1,
                        .top_p = 1,
                        .typical_p = 1,
                        .repetition_penalty = 1,
                        .length_penalty = 1,
                        .n_logprob = -1,
                        .n_prompt_logprob = -1,
                        .cache_prompt = true,
                        .speculate = true,
                        .add_special = true,
                        .parse_special = true,
                        .skip_special = api != FXI_API_DETOKENIZE,
                        .keep_priority = api == FXI_API_RETAIN ? 7 : 0,
                        .add_generation_prompt = true,
                        .parallel_calls = true,
                        .include_reasoning = true,
                        .separate_reasoning = true};
}

// A wrong type or value outranks what is not supported.
static bool read_params(fxi_parse *p)
{
    static bool (*const convert[FXI_N_API])(fxi_parse *) = {
        [FXI_API_RESPONSES] = fxi_responses_convert,
        [FXI_API_MESSAGES] = fxi_messages_convert,
        [FXI_API_COUNT] = fxi_messages_convert,
    };
    const fxi_api api = p->par->api;
    if (!fxi_fields_read(p) || (convert[api] && !convert[api](p)) || !fxi_variables_convert(p) ||
        !fxi_fields_check(p))
        return false;
    if (p->par->unsupported.status) *p->err = p->par->unsupported;
    return !p->par->unsupported.status;
}

bool fxi_params_parse(fxi_params *par, fxi_api api, const char *body, size_t n_bytes,
                      const fxi_limits *lim, fxi_http_error *err)
{
    *par = default_params(api);
    par->charge = lim->charge;
    par->n_body_bytes = n_bytes;
    par->cut_first = lim->cut_first;
    par->processed_logprobs = lim->processed_logprobs;
    par->refuse_excess = lim->refuse_excess;
    par->formats = lim->formats;
    par->infill = lim->infill;
    fxi_parse p = {par, lim, err};
    bool ok = fxi_json_body(&par->doc, par->charge, body, n_bytes, err);
    par->root = par->doc.root;
    if (ok && read_params(&p)) return true;
    fxi_params_free(par);
    return false;
}

void fxi_params_free(fxi_params *par)
{
    for (size_t i = 0; par->prompt && i < par->n_prompt; i++) free(par->prompt[i].ids.id);
    for (size_t i = 0; i < par->n_ban; i++) free((void *)par->ban[i].id);
    free(par->prompt);
    free(par->stop_token.id);
    free(par->allow.id);
    free(par->tokens.id);
    free(par->bias);
    free(par->ban);
    fx_grammar_release(par->grammar);
    if (par->charge)
        fxi_charge_release(par->charge, FXI_BYTES_TREE,
                           par->doc.held_bytes + par->made.held_bytes +
                               par->made_kwargs.held_bytes + par->form.doc.held_bytes +
                               par->list_bytes);
    fxi_buf_free(&par->mirror);
    fxi_json_doc_free(&par->made);
    fxi_json_doc_free(&par->made_kwargs);
    fxi_json_doc_free(&par->form.doc);
    fxi_json_doc_free(&par->doc);
    *par = (fxi_params){0};
}
