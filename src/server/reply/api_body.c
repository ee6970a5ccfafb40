// api_body.c - one reply as text for the client: server-sent events, or one JSON body.
//
// Events of a stream:
//
//   chat:        {"role"} -> {"reasoning_content"} ... {"content"} ... {"tool_calls"} ...
//                         -> {} with finish_reason
//   completions: [echo]   -> "text" ...      -> "" with finish_reason
//
// per choice, and choices interleave; then the usage chunk if the client asked for it, then [DONE].
// After an error, an error event replaces the rest.
//
// Logprobs and token ids ride in the chunk with the text of their token: those of tokens without
// text, or whose text is held back, wait in the choice for the next chunk.
//
// All chunks of a stream start alike; that start is written once, into the reply's `head`.
#include "base/text/base64.h"
#include "server/reply/api_reply.h"

// ---- streams ------------------------------------------------------------------------------------

static bool stream_head(fxi_reply *r)
{
    static const char *const objects[] = {"text_completion", "chat.completion.chunk"};
    return fxi_json_fmt(&r->head, "data: {'id':%q,'object':%q,'created':%l,'model':%q,'choices':[",
                        r->id, objects[r->spec.api], (long long)r->created, r->model);
}

static bool begin_chunk(fxi_reply *r)
{
    r->begun = true;
    return fxi_buf_add(&r->out, r->head.p, r->head.n);
}

static bool add_chunk_usage(fxi_reply *r)
{
    if (r->spec.continuous_usage)
        return fxi_json_fmt(&r->out, ",'usage':") && fxi_usage_add(&r->out, r);
    return !r->spec.include_usage || fxi_json_fmt(&r->out, ",'usage':null");
}

// A chunk of one choice: what it says stands between these two. probs, ids: NULL: none.
static bool begin_choice_chunk(fxi_reply *r, int k)
{
    return begin_chunk(r) && fxi_json_fmt(&r->out, "{'index':%d,", k);
}

static bool end_choice_chunk(fxi_reply *r, int k, const fxi_probs *probs, const fxi_buf *ids,
                             fx_finish finish)
{
    fxi_buf *b = &r->out;
    fxi_choice *c = &r->choice[k];
    const bool is_chat = r->spec.api == FXI_API_CHAT;
    // The prompt's ids come once for each choice; of completions inside of it.
    const fxi_buf *prompt_ids = &r->prompt[k / r->spec.n_per_prompt].ids;
    const char *back = c->begun || !r->spec.return_ids ? "}]"
                       : is_chat                       ? "}],'prompt_token_ids':[%b]"
                                                       : ",'prompt_token_ids':[%b]}]";
    c->begun = true;
    return fxi_json_fmt(b, ",'logprobs':") &&
           fxi_probs_write(b, r, probs && probs->list[FXI_PROBS_TOKEN].n ? probs : NULL, NULL) &&
           (finish == FX_FINISH_NONE ? fxi_json_fmt(b, ",'finish_reason':null")
                                     : fxi_finish_add(b, r, c, finish)) &&
           (!r->spec.return_ids || !ids || fxi_json_fmt(b, ",'token_ids':[%b]", ids)) &&
           fxi_json_fmt(b, back, prompt_ids) && add_chunk_usage(r) && fxi_timings_add(b, r) &&
           fxi_buf_str(b, "}\n\n");
}

// The same with the logprobs and ids that wait in the choice.
static bool end_waiting_chunk(fxi_reply *r, int k, fx_finish finish)
{
    fxi_choice *c = &r->choice[k];
    if (!end_choice_chunk(r, k, &c->probs, &c->ids, finish)) return false;
    fxi_probs_clear(&c->probs);
    fxi_buf_clear(&c->ids);
    return true;
}

static bool stream_begin(fxi_reply *r, int k)
{
    const fxi_prompt_part *p = &r->prompt[k / r->spec.n_per_prompt];
    const fxi_str echo = {p->echo.p, p->echo.n};
    const bool is_chat = r->spec.api == FXI_API_CHAT;
    if (r->choice[k].begun || (!is_chat && !r->spec.echo)) return true;
    return begin_choice_chunk(r, k) &&
           (is_chat ? fxi_json_fmt(&r->out, "'delta':{'role':'assistant','content':''}")
                    : fxi_json_fmt(&r->out, "'text':%t", echo)) &&
           end_choice_chunk(r, k, is_chat ? NULL : &p->probs, NULL, FX_FINISH_NONE);
}

static bool stream_text(fxi_reply *r, int k, const char *text, size_t n_bytes)
{
    const char *pattern = r->spec.api == FXI_API_CHAT ? "'delta':{'content':%t}" : "'text':%t";
    return !n_bytes ||
           (begin_choice_chunk(r, k) && fxi_json_fmt(&r->out, pattern, (fxi_str){text, n_bytes}) &&
            end_waiting_chunk(r, k, FX_FINISH_NONE));
}

static bool stream_finish(fxi_reply *r, int k, fx_finish finish)
{
    const char *nothing = r->spec.api == FXI_API_CHAT ? "'delta':{}" : "'text':''";
    return begin_choice_chunk(r, k) && fxi_json_fmt(&r->out, nothing) &&
           end_waiting_chunk(r, k, finish);
}

static bool stream_content(fxi_reply *r, int k, const fxi_output_event *ev)
{
    char id[FXI_CALL_ID_BYTES];
    fxi_buf *b = &r->out;
    fxi_choice *c = &r->choice[k];
    const fxi_str text = {ev->p, ev->n};
    bool ok = true;
    switch (ev->kind) {
    case FXI_OUTPUT_TEXT: return stream_text(r, k, ev->p, ev->n);
    case FXI_OUTPUT_BROKEN: // what was emitted of the call stays so; the rest is text
        return stream_text(r, k, ev->p + ev->n_emitted, ev->n - ev->n_emitted);
    case FXI_OUTPUT_DONE: return true;
    case FXI_OUTPUT_REASONING:
        ok = begin_choice_chunk(r, k) && fxi_json_fmt(b, "'delta':{'reasoning_content':%t}", text);
        break;
    case FXI_OUTPUT_CALL:
        fxi_tools_call_id(r, k, c->n_call, ev, id);
        ok = begin_choice_chunk(r, k) &&
             fxi_json_fmt(b,
                          "'delta':{'tool_calls':[{'index':%d,'id':%q,'type':'function',"
                          "'function':{'name':%t,'arguments':''}}]}",
                          c->n_call++, id, text);
        break;
    case FXI_OUTPUT_ARGS:
        ok = begin_choice_chunk(r, k) &&
             fxi_json_fmt(b, "'delta':{'tool_calls':[{'index':%d,'function':{'arguments':%t}}]}",
                          c->n_call - 1, text);
        break;
    }
    return ok && end_waiting_chunk(r, k, FX_FINISH_NONE);
}

static bool stream_end(fxi_reply *r)
{
    fxi_buf *b = &r->out;
    bool ok = !r->spec.include_usage ||
              (begin_chunk(r) && fxi_json_fmt(b, "],'usage':") && fxi_usage_add(b, r) &&
               fxi_timings_add(b, r) && fxi_buf_str(b, "}\n\n"));
    return ok && fxi_buf_str(b, "data: [DONE]\n\n");
}

static bool stream_error(fxi_reply *r, const fxi_http_error *e)
{
    return fxi_buf_str(&r->out, "data: ") && fxi_http_error_body(&r->out, e) &&
           fxi_buf_str(&r->out, "\n\ndata: [DONE]\n\n");
}

const fxi_writer fxi_stream_writer = {.ping = ": ping\n\n",
                                      .head = stream_head,
                                      .begin = stream_begin,
                                      .content = stream_content,
                                      .finish = stream_finish,
                                      .end = stream_end,
                                      .error = stream_error};

// ---- whole bodies: text and chat ----------------------------------------------------------------

static size_t content_bytes(const fxi_choice *c, fxi_output_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_content; i++)
        if (c->content[i].kind == kind) n += c->content[i].text.n;
    return n;
}

// All of one kind, as one string.
static bool add_content_text(fxi_buf *b, const fxi_choice *c, fxi_output_kind kind)
{
    fxi_buf all = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < c->n_content; i++)
        ok = c->content[i].kind != kind ||
             fxi_buf_add(&all, c->content[i].text.p, c->content[i].text.n);
    ok = ok && fxi_json_str(b, all.p, all.n);
    fxi_buf_free(&all);
    return ok;
}

// Members of a message beside its content.
static bool add_content(fxi_buf *b, const fxi_choice *c)
{
    const char *comma = "";
    bool ok =
        !content_bytes(c, FXI_OUTPUT_REASONING) ||
        (fxi_json_fmt(b, ",'reasoning_content':") && add_content_text(b, c, FXI_OUTPUT_REASONING));
    if (!c->n_call) return ok;
    ok = ok && fxi_json_fmt(b, ",'tool_calls':[");
    for (size_t i = 0; ok && i < c->n_content; i++) {
        const fxi_content_part *p = &c->content[i];
        if (p->kind != FXI_OUTPUT_CALL) continue;
        ok = fxi_json_fmt(b, "%s{'id':%q,'type':'function','function':{'name':%t,'arguments':%t}}",
                          comma, p->id, (fxi_str){p->name.p, p->name.n},
                          (fxi_str){p->text.p, p->text.n});
        comma = ",";
    }
    return ok && fxi_buf_str(b, "]");
}

static bool add_choice_text(fxi_buf *b, const fxi_choice *c, const fxi_prompt_part *prompt)
{
    const bool says_other = c->n_call || content_bytes(c, FXI_OUTPUT_REASONING);
    if (says_other && !content_bytes(c, FXI_OUTPUT_TEXT)) return fxi_buf_str(b, "null");
    if (c->answer) return add_content_text(b, c, FXI_OUTPUT_TEXT);
    if (!prompt->echo.n) return fxi_json_str(b, c->text.p, c->text.n);
    fxi_buf both = {0};
    bool ok = fxi_buf_add(&both, prompt->echo.p, prompt->echo.n) &&
              (!c->text.n || fxi_buf_add(&both, c->text.p, c->text.n)) &&
              fxi_json_str(b, both.p, both.n);
    fxi_buf_free(&both);
    return ok;
}

// Of completions they are members of each choice, of a chat members of the body.
static bool add_of_prompt(fxi_buf *b, const fxi_reply *r, const fxi_prompt_part *prompt)
{
    return (!r->spec.prompt_logprobs ||
            fxi_json_fmt(b, ",'prompt_logprobs':[%b]", &prompt->logprobs)) &&
           (!r->spec.return_ids || fxi_json_fmt(b, ",'prompt_token_ids':[%b]", &prompt->ids));
}

static bool add_choice(fxi_buf *b, const fxi_reply *r, int k)
{
    const bool is_chat = r->spec.api == FXI_API_CHAT;
    const fxi_choice *c = &r->choice[k];
    const fxi_prompt_part *prompt = &r->prompt[k / r->spec.n_per_prompt];
    return fxi_json_fmt(b, "%s{'index':%d,", k ? "," : "", k) &&
           fxi_json_fmt(b, is_chat ? "'message':{'role':'assistant','content':" : "'text':") &&
           add_choice_text(b, c, prompt) &&
           (!is_chat ||
            (fxi_json_fmt(b, ",'refusal':null") && add_content(b, c) && fxi_buf_str(b, "}"))) &&
           fxi_json_fmt(b, ",'logprobs':") &&
           (r->spec.logprobs ? fxi_probs_write(b, r, &prompt->probs, &c->probs)
                             : fxi_buf_str(b, "null")) &&
           fxi_finish_add(b, r, c, c->finish) &&
           (!r->spec.return_ids || fxi_json_fmt(b, ",'token_ids':[%b]", &c->ids)) &&
           (is_chat || add_of_prompt(b, r, prompt)) && fxi_buf_str(b, "}");
}

static bool write_answer(fxi_buf *b, const fxi_reply *r)
{
    static const char *const objects[] = {"text_completion", "chat.completion"};
    bool ok =
        fxi_json_fmt(b,
                     "{'id':%q,'object':%q,'created':%l,'model':%q,'system_fingerprint':%q,"
                     "'choices':[",
                     r->id, objects[r->spec.api], (long long)r->created, r->model, r->fingerprint);
    for (int k = 0; ok && k < r->spec.n_prompt * r->spec.n_per_prompt; k++)
        ok = add_choice(b, r, k);
    return ok && fxi_json_fmt(b, "],'usage':") && fxi_usage_add(b, r) && fxi_timings_add(b, r) &&
           (r->spec.api != FXI_API_CHAT || add_of_prompt(b, r, &r->prompt[0])) &&
           fxi_buf_str(b, "}");
}

// ---- embeddings ---------------------------------------------------------------------------------

static bool add_vector(fxi_buf *b, const fxi_reply *r, const fxi_buf *floats)
{
    const float *v = (const float *)floats->p;
    if (r->spec.base64)
        return fxi_buf_str(b, "\"") && fxi_base64_add(b, floats->p, floats->n) &&
               fxi_buf_str(b, "\"");
    bool ok = fxi_buf_str(b, "[");
    for (size_t i = 0; ok && i < floats->n / sizeof *v; i++)
        ok = fxi_json_fmt(b, i ? ",%f" : "%f", (double)v[i]);
    return ok && fxi_buf_str(b, "]");
}

static bool write_embeddings(fxi_buf *b, const fxi_reply *r)
{
    const int n_tok = fxi_usage_of(r).n_prompt;
    bool ok = fxi_json_fmt(b, "{'object':'list','data':[");
    for (int k = 0; ok && k < r->spec.n_prompt; k++)
        ok = fxi_json_fmt(b, "%s{'object':'embedding','index':%d,'embedding':", k ? "," : "", k) &&
             add_vector(b, r, &r->choice[k].text) && fxi_buf_str(b, "}");
    return ok && fxi_json_fmt(b, "],'model':%q,'usage':{'prompt_tokens':%d,'total_tokens':%d}}",
                              r->model, n_tok, n_tok);
}

static bool write_retained(fxi_buf *b, const fxi_reply *r)
{
    bool ok = fxi_json_fmt(b, "{'object':'list','data':[");
    for (int k = 0; ok && k < r->spec.n_prompt; k++)
        ok =
            fxi_json_fmt(b, "%s{'object':'cache.prefix','index':%d,'tokens':%d,'cached_tokens':%d}",
                         k ? "," : "", k, r->use[k].n_prompt, r->use[k].n_cached);
    return ok && fxi_buf_str(b, "]}");
}

// ---- all of them --------------------------------------------------------------------------------

size_t fxi_whole_bytes(const fxi_reply *r)
{
    enum { FRAME_BYTES = 256, FLOAT_BYTES = 16 }; // of JSON around a choice; of a float and a comma
    size_t n = FRAME_BYTES + (r->spec.documents ? r->kept.held_bytes : 0);
    for (int k = 0; k < r->spec.n_prompt * r->spec.n_per_prompt; k++) {
        const fxi_choice *c = &r->choice[k];
        const fxi_prompt_part *p = &r->prompt[k / r->spec.n_per_prompt];
        n += FRAME_BYTES + fxi_content_bytes(c) + c->ids.n + fxi_probs_bytes(&c->probs) +
             p->echo.n + p->ids.n + p->logprobs.n + fxi_probs_bytes(&p->probs);
        if (r->spec.api != FXI_API_EMBEDDINGS)
            n += c->text.n + c->text.n / 8;
        else
            n += r->spec.base64 ? c->text.n / 3 * 4 + 4 : c->text.n / sizeof(float) * FLOAT_BYTES;
    }
    return n;
}

bool fxi_whole_body(fxi_buf *b, const fxi_reply *r)
{
    static bool (*const writers[])(fxi_buf * b, const fxi_reply *r) = {
        [FXI_API_COMPLETIONS] = write_answer,      [FXI_API_CHAT] = write_answer,
        [FXI_API_EMBEDDINGS] = write_embeddings,   [FXI_API_RETAIN] = write_retained,
        [FXI_API_RESPONSES] = fxi_responses_whole, [FXI_API_MESSAGES] = fxi_messages_whole,
        [FXI_API_RERANK] = fxi_rerank_whole,       [FXI_API_SCORE] = fxi_scores_whole,
    };
    return writers[r->spec.api](b, r);
}
