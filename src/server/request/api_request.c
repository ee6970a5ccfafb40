// api_request.c - a body to checked parameters: the table of fields (api_table.c) is run over it,
// then what involves several fields is checked.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_count
#include "server/request/api_fields.h"

static fxi_params default_params(fxi_api api, const fxi_limits *lim)
{
    fxi_params par = {.api = api,
                      .charge = lim->charge,
                      .refuse_excess = lim->refuse_excess,
                      .marked_calls_only = lim->marked_calls_only,
                      .formats = lim->formats,
                      .infill = lim->infill,
                      .request = fx_request_default(),
                      .max_tok = -1,
                      .max_completion_tok = -1,
                      .n = 1,
                      .best_of = -1,
                      .n_logprob = -1,
                      .thinking_tok = -1,
                      .n_prompt_logprob = -1,
                      .cache_prompt = true,
                      .speculate = true,
                      .add_special = true,
                      .parse_special = true,
                      .skip_special = api != FXI_API_DETOKENIZE,
                      .add_generation_prompt = true,
                      .parallel_calls = true,
                      .return_documents = true,
                      .include_reasoning = true,
                      .separate_reasoning = true};
    par.request.keep_priority = api == FXI_API_RETAIN ? 7 : 0;
    par.request.processed_logprobs = lim->processed_logprobs;
    if (lim->preset)
        par.request.sampling = *lim->preset;
    else
        par.request.sampling.repetition_penalty = 1;
    par.request.sampling.typical_p = 1;
    par.request.sampling.cut_first = lim->cut_first;
    return par;
}

// ---- the table of fields, run over a body -------------------------------------------------------

static const struct type_name {
    unsigned bit;
    const char *text;
} type_names[] = {
    {FXI_T_BOOL, "true or false"}, {FXI_T_INT, "an integer"}, {FXI_T_NUM, "a number"},
    {FXI_T_STR, "a string"},       {FXI_T_ARR, "an array"},   {FXI_T_OBJ, "an object"},
};

// Whether it has no fraction and a double holds it exactly.
static bool is_whole(double d)
{
    return d == floor(d) && fabs(d) <= 9007199254740992.0;
}

static unsigned types_of(const fxi_json *v)
{
    switch (fxi_json_type_of(v)) {
    case FXI_JSON_BOOL: return FXI_T_BOOL;
    case FXI_JSON_INT: return FXI_T_INT | FXI_T_NUM;
    case FXI_JSON_REAL: return FXI_T_NUM | (is_whole(fxi_json_number(v)) ? FXI_T_INT : 0);
    case FXI_JSON_STRING: return FXI_T_STR;
    case FXI_JSON_ARRAY: return FXI_T_ARR;
    case FXI_JSON_OBJECT: return FXI_T_OBJ;
    default: return 0;
    }
}

static bool check_type(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    if (types_of(v) & f->types) return true;
    char want[96] = "";
    for (size_t i = 0; i < sizeof type_names / sizeof type_names[0]; i++) {
        if (!(f->types & type_names[i].bit)) continue;
        size_t n = strlen(want);
        snprintf(want + n, sizeof want - n, "%s%s", n ? " or " : "", type_names[i].text);
    }
    return fxi_bad_type(p, f->name, want);
}

// The quantity that the bounds of a field limit.
typedef struct amount {
    double x;
    const char *verb, *unit; // "must VERB at least 1UNIT"
} amount;

static amount amount_of(const fxi_json *v)
{
    if (fxi_json_is_string(v))
        return (amount){(double)fxi_utf8_count(fxi_json_text(v), fxi_json_string(v).n), "have",
                        " characters"};
    if (fxi_json_is_array(v)) return (amount){(double)fxi_json_array_size(v), "have", " members"};
    return (amount){fxi_json_number(v), "be", ""};
}

static bool check_bounds(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    if (f->lo == f->hi) return true;
    amount a = amount_of(v);
    bool above = f->types & FXI_T_ABOVE;
    // Integers are compared as such: as a double, one beyond a large bound may equal it.
    const bool too_much =
        fxi_json_is_int(v) && f->hi < 0x1p63 ? fxi_json_int(v) > (int64_t)f->hi : a.x > f->hi;
    if ((above ? a.x > f->lo : a.x >= f->lo) && !too_much) return true;
    const char *least = above ? "greater than" : "at least";
    if (f->hi >= FXI_NO_MAX)
        return fxi_bad_value(p, f->name, "'%s' must %s %s %g%s", f->name, a.verb, least, f->lo,
                             a.unit);
    return fxi_bad_value(p, f->name, "'%s' must %s %s %g and at most %.10g%s", f->name, a.verb,
                         least, f->lo, f->hi, a.unit);
}

static bool check_words(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    char word[40];
    const char *text = fxi_json_text(v);
    if (!f->words || !text) return true;
    snprintf(word, sizeof word, " %.36s ", text);
    if (!strchr(text, ' ') && strstr(f->words, word)) return true;
    return fxi_bad_value(p, f->name, "'%s' must be one of:%.*s", f->name, (int)strlen(f->words) - 1,
                         f->words);
}

static bool run_rows(fxi_parse *p, const fxi_field *row, size_t n_row, const fxi_json *from)
{
    for (const fxi_field *f = row; f < row + n_row; f++) {
        if (!(f->apis & 1u << p->par->api)) continue;
        const fxi_json *v = fxi_json_get(from, f->name);
        if (!v || fxi_json_is_null(v)) {
            if (!(f->types & FXI_T_REQUIRED)) continue;
            return fxi_http_fail(p->err, 400, "missing_required_parameter", f->name,
                                 "'%s' is required", f->name);
        }
        if (!check_type(p, f, v) || !check_bounds(p, f, v) || !check_words(p, f, v) ||
            (f->set && !f->set(p, f, v)))
            return false;
    }
    return true;
}

// ---- fields that nobody knows -----------------------------------------------------------------

static bool is_field(fxi_api api, const char *name)
{
    size_t n;
    const fxi_field *rows = fxi_field_rows(&n);
    for (size_t i = 0; i < n; i++)
        if (rows[i].apis & 1u << api && !strcmp(rows[i].name, name)) return true;
    return false;
}

// As many names as there is room for: there are few fields, so few members are looked at. Names go
// to the log: what is no plain word, and so perhaps a text, does not.
static void note_ignored(fxi_params *par)
{
    size_t n = 0;
    for (fxi_json_iter it = fxi_json_members(par->root); fxi_json_next(&it);) {
        if (is_field(par->api, it.key)) continue;
        const fxi_str key = fxi_str_of(it.key);
        const bool is_word = key.n > 0 && key.n <= 40 && fxi_str_is_plain(key, "_-.");
        const char *text = is_word ? it.key : "?";
        if (n + strlen(text) + 2 > sizeof par->ignored) return;
        n +=
            (size_t)snprintf(par->ignored + n, sizeof par->ignored - n, "%s%s", n ? "," : "", text);
    }
}

static bool read_fields(fxi_parse *p)
{
    size_t n;
    const fxi_field *rows = fxi_field_rows(&n);
    note_ignored(p->par);
    if (!run_rows(p, rows, n, p->par->root)) return false;
    rows = fxi_stream_field_rows(&n);
    return run_rows(p, rows, n, p->par->stream_options);
}

// ---- checks that involve several fields ---------------------------------------------------------

// What needs no number to say.
static bool check_combinations(fxi_parse *p)
{
    const fxi_params *par = p->par;
    const char *id = par->request_id ? par->request_id : "";
    // Generating nothing makes sense only if the prompt itself is scored or echoed.
    const bool scores = par->n_prompt_logprob >= 0 || par->reply.echo;
    // The marks and the suffix are no part of what an echo repeats, or a truncation keeps.
    const bool infills = par->suffix != NULL;
    const struct {
        bool is_wrong;
        const char *param, *text;
    } rules[] = {
        {!par->reply.stream && par->stream_options, "stream_options",
         "'stream_options' needs 'stream'"},
        {par->reply.stream && par->best_of > par->n, "best_of", "'best_of' cannot be streamed"},
        {par->reply.stream && par->beam, "use_beam_search", "a beam search cannot be streamed"},
        {par->beam && par->thinking_tok >= 0, "thinking_budget",
         "a beam search has no budget of reasoning"},
        {par->reply.stream && par->n_prompt_logprob >= 0, "prompt_logprobs",
         "'prompt_logprobs' cannot be streamed"},
        {par->best_of >= 0 && par->best_of < par->n, "best_of", "'best_of' must be at least 'n'"},
        {par->api == FXI_API_CHAT && par->n_logprob > 0 && !par->logprobs, "top_logprobs",
         "'top_logprobs' needs 'logprobs'"},
        {par->max_completion_tok == 0, "max_completion_tokens",
         "'max_completion_tokens' must be at least 1"},
        {par->max_tok == 0 && !scores, "max_tokens", "'max_tokens' must be at least 1"},
        {infills && par->reply.echo, "suffix", "'suffix' and 'echo' exclude each other"},
        {infills && par->truncate, "suffix",
         "'suffix' and 'truncate_prompt_tokens' exclude each other"},
        {infills && !par->prompt[0].text, "suffix", "'suffix' needs a prompt of text"},
        {par->continue_final && fxi_json_is_true(fxi_json_get(par->root, "add_generation_prompt")),
         "continue_final_message",
         "'continue_final_message' and 'add_generation_prompt' exclude each other"},
        {!fxi_str_is_plain(fxi_str_of(id), "_.-"), "request_id",
         "'request_id' must be letters, digits and _.- only"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].is_wrong) return fxi_bad_value(p, rules[i].param, "%s", rules[i].text);
    return true;
}

static bool check_amounts(fxi_parse *p)
{
    const fxi_params *par = p->par;
    const fxi_limits *lim = p->lim;
    const int64_t n_seq = fxi_params_n_seq(par), most = fxi_params_max_tok(par);
    const char *name = par->best_of > par->n ? "best_of" : "n";
    if (n_seq * (int64_t)par->n_prompt > lim->max_choice)
        return fxi_bad_value(p, name, "'%s' times the number of prompts must be at most %d", name,
                             lim->max_choice);
    if (par->beam && n_seq > FX_MAX_BEAM)
        return fxi_bad_value(p, name, "a beam search is at most %d wide", FX_MAX_BEAM);
    const int max_top = lim->max_top ? lim->max_top : FX_MAX_TOP;
    name = par->n_prompt_logprob > max_top ? "prompt_logprobs"
           : par->api == FXI_API_CHAT      ? "top_logprobs"
                                           : "logprobs";
    if (par->n_prompt_logprob > max_top || par->n_logprob > max_top)
        return fxi_bad_value(p, name, "'%s' must be at most %d on this server", name, max_top);
    if (most >= 0 && par->request.sampling.min_tok > most)
        return fxi_bad_value(p, "min_tokens", "'min_tokens' must be at most 'max_tokens', %lld",
                             (long long)most);
    if (par->api == FXI_API_EMBEDDINGS && lim->n_embd && par->dimensions > lim->n_embd)
        return fxi_bad_value(p, "dimensions", "'dimensions' must be at most %d", lim->n_embd);
    if ((par->api == FXI_API_TOKENIZE || par->api == FXI_API_RETAIN) && !par->input)
        return fxi_http_fail(p->err, 400, "missing_required_parameter", "prompt",
                             "'prompt' or 'messages' is required");
    return true;
}

// ---- the whole ----------------------------------------------------------------------------------

// A wrong type or value outranks what is not supported.
static bool read_params(fxi_parse *p)
{
    static bool (*const convert[FXI_N_API])(fxi_parse *) = {
        [FXI_API_RESPONSES] = fxi_responses_convert, [FXI_API_MESSAGES] = fxi_messages_convert,
        [FXI_API_COUNT] = fxi_messages_convert,      [FXI_API_RERANK] = fxi_scores_convert,
        [FXI_API_SCORE] = fxi_scores_convert,
    };
    fxi_params *par = p->par;
    if (!read_fields(p) || (convert[par->api] && !convert[par->api](p)) ||
        !fxi_variables_convert(p) || !check_combinations(p) || !check_amounts(p) ||
        !fxi_tools_check(p))
        return false;
    if (par->unsupported.status) *p->err = par->unsupported;
    return !par->unsupported.status && fxi_chat_write(p);
}

bool fxi_params_parse(fxi_params *par, fxi_api api, const char *body, size_t n_bytes,
                      const fxi_limits *lim, fxi_http_error *err)
{
    *par = default_params(api, lim);
    par->n_body_bytes = n_bytes;
    fxi_parse p = {par, lim, err};
    bool ok = fxi_json_body(&par->doc, par->charge, body, n_bytes, err);
    par->root = par->doc.root;
    if (ok && read_params(&p)) return true;
    fxi_params_free(par);
    return false;
}

void fxi_params_free(fxi_params *par)
{
    fx_tokens_free(&par->close_tok);
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
    for (size_t i = 0; i < 3; i++) fxi_buf_free(&par->chat[i]);
    fxi_json_doc_free(&par->made);
    fxi_json_doc_free(&par->made_kwargs);
    fxi_json_doc_free(&par->form.doc);
    fxi_json_doc_free(&par->doc);
    *par = (fxi_params){0};
}
