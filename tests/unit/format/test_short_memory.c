// Every allocation fails once, alone and with all later ones: vocabularies of each form are read,
// text is encoded and decoded, a template is compiled and rendered, a folder is converted, or the
// error is FX_ENOMEM in one line; nothing leaks (ASan checks).
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/chat.h"
#include "format/gguf.h"
#include "format/quantize.h"
#include "format/vocab.h"
#include "format/vocab/build/vocab_build.h"
#include "format/vocab/read/vocab_read.h"
#include "json_doc.h"
#include "unit/cmocka_all.h"
#include "unit/wrapped_memory.h"

#define FOLDER       FX_SOURCE_DIR "/tests/vectors/tokenizers/"
#define COUNT(table) (sizeof(table) / sizeof *(table))

static const char tokenizer_json[] =
    "{\"added_tokens\": [{\"id\": 3, \"content\": \"<s>\", \"special\": true}],"
    " \"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", "
    "\"pretokenizers\": ["
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \" ?[a-z]+\"}, \"behavior\": \"Isolated\"},"
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]},"
    " \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"unk_token\": \"h\","
    " \"vocab\": {\"h\": 0, \"i\": 1, \"hi\": 2}, \"merges\": [[\"h\", \"i\"]]}}";

static const char words_json[] =
    "{\"normalizer\": {\"type\": \"StripAccents\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", "
    "\"pretokenizers\": [{\"type\": \"Whitespace\"}, {\"type\": \"Split\", \"pattern\": "
    "{\"Regex\": "
    "\"[a-z&&[^a]]\"}, \"behavior\": \"Isolated\"}, {\"type\": \"Metaspace\", "
    "\"replacement\": \"\xE2\x96\x81\", \"split\": false}]}, \"decoder\": {\"type\": "
    "\"Metaspace\", "
    "\"replacement\": \"\xE2\x96\x81\"}, \"model\": {\"type\": \"WordPiece\", \"unk_token\": "
    "\"h\", "
    "\"vocab\": {\"h\": 0, \"\xE2\x96\x81h\": 1, \"##i\": 2, \"##\\u0000\": 3}}}";

static const char unigram_json[] =
    "{\"normalizer\": {\"type\": \"NFKC\"}, \"decoder\": {\"type\": \"Fuse\"}, \"model\": "
    "{\"type\": "
    "\"Unigram\", \"unk_id\": 0, \"vocab\": [[\"h\", -1.5], [\"i\", -2], [\"hi\", -1]]}}";

static const char template[] =
    "{% if tools %}{{ tools|tojson(indent=2) }}{% endif %}{% set ns = namespace(a=1) %}"
    "{% macro m(x, y=2) %}{{ x|upper }}{{ y }}{% endmacro %}"
    "{% for x in messages if x.role != 'boss' %}{{ '<s>' ~ x.role }}{{ m(x.content|string|trim) }}"
    "{% set ns.a = ns.a + 1 %}{{ [3, 1, 2]|sort|join(',') }}{{ 'a-b'|replace('-', 'x') }}{{ "
    "{'a': 1}|items|list }}"
    "{% endfor %}{{ k|default('')|tojson }}{{ messages[-1].tool_calls|tojson if "
    "messages[-1].tool_calls }}";

static struct {
    bool on, all;
    long n, at;
} failing;

static bool fails_now(size_t n_bytes)
{
    (void)n_bytes;
    if (!failing.on) return false;
    const long i = failing.n++;
    const bool yes = i == failing.at || (failing.all && i > failing.at);
    if (yes) errno = ENOMEM;
    return yes;
}

// What libc allocates for its callers, and what fails in its place; the names with _chk are those
// of fortified builds.
#define FAILING(type, name, params, args)                \
    type __real_##name params;                           \
    type __wrap_##name params;                           \
    type __wrap_##name params                            \
    {                                                    \
        return fails_now(0) ? NULL : __real_##name args; \
    }

FAILING(char *, strdup, (const char *s), (s))
FAILING(char *, strndup, (const char *s, size_t n), (s, n))
FAILING(char *, realpath, (const char *path, char *room), (path, room))
FAILING(FILE *, fopen, (const char *path, const char *mode), (path, mode))

int __wrap_asprintf(char **out, const char *fmt, ...);
int __wrap___asprintf_chk(char **out, int flag, const char *fmt, ...);

static int print_or_fail(char **out, const char *fmt, va_list ap)
{
    *out = (char *)(uintptr_t)-1; // undefined, then
    return fails_now(0) ? -1 : vasprintf(out, fmt, ap);
}

int __wrap_asprintf(char **out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = print_or_fail(out, fmt, ap);
    va_end(ap);
    return n;
}

int __wrap___asprintf_chk(char **out, int flag, const char *fmt, ...)
{
    (void)flag;
    va_list ap;
    va_start(ap, fmt);
    const int n = print_or_fail(out, fmt, ap);
    va_end(ap);
    return n;
}

// `pre`: the file's text.
static fx_status open_json(const char *path, const char *pre, fxi_vocab **out, fx_error *err)
{
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, path);
    fx_status st = fxi_vocab_read_hf(fxi_str_of(pre), &s, err);
    if (st == FX_OK) st = fxi_vocab_build(&s, out, err);
    fxi_vocab_spec_free(&s);
    return st;
}

static fx_status open_file(const char *path, const char *pre, fxi_vocab **out, fx_error *err)
{
    return fxi_vocab_open(path, pre, NULL, out, err);
}

#define SAID                                                                                \
    "[{\"role\": \"developer\", \"content\": \"hi\"},"                                      \
    " {\"role\": \"user\", \"content\": [{\"text\": \"hi\"}]},"                             \
    " {\"role\": \"hi\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": " \
    "\"{\\\"hi\\\": 1}\"}}, {\"function\": {\"arguments\": \"{}\"}}]}]"

static fx_status render_plain(const fxi_chat *c, fx_error *err)
{
    const fxi_chat_msg plain[] = {{"user", {"hi", 2}}, {"boss", {NULL, 0}}};
    const fxi_conversation q = {.plain = plain, .n_plain = 2};
    fxi_marked m = {0};
    fx_status st = fxi_chat_render(c, &q, &m, err);
    fxi_marked_free(&m);
    return st;
}

static fx_status chat(const fxi_vocab *v, fxi_ids *ids, fx_error *err)
{
    const fxi_chat_source source = {.tokenizer = {template, sizeof template - 1}};
    const fxi_conversation q = {.messages = fxi_str_of(SAID),
                                .tools = fxi_str_of("[{\"name\": \"f\"}]"),
                                .kwargs = fxi_str_of("{\"k\": [1, 2.5, null, true]}")};
    fxi_chat *c;
    FX_TRY(fxi_chat_open(&source, v, &c, err));
    fxi_marked m = {0};
    fx_status st = fxi_chat_render(c, &q, &m, err);
    if (st == FX_OK) st = render_plain(c, err);
    if (st == FX_OK) st = fxi_vocab_encode_marked(v, "<s>hihihi", m.own.p, 9, 0, ids, err);
    fxi_marked_free(&m);
    fxi_chat_free(c);
    return st;
}

static fx_status use(const fxi_vocab *v, fx_error *err)
{
    char word[200];
    fxi_ids ids = {0};
    fxi_buf text = {0};
    memset(word, 'h', sizeof word);
    fx_status st = fxi_vocab_encode(v, word, sizeof word, 3, &ids, err);
    if (st == FX_OK && !fxi_vocab_decode(v, ids.id, ids.n, 0, &text)) {
        *err = (fx_error){.text = "decoding"};
        st = FX_ENOMEM;
    }
    if (st == FX_OK) st = chat(v, &ids, err);
    fxi_ids_free(&ids);
    fxi_buf_free(&text);
    return st;
}

typedef struct form {
    fx_status (*open)(const char *path, const char *pre, fxi_vocab **out, fx_error *err);
    const char *path, *pre;
} form;

static fx_status everything(const form *f, fx_error *err)
{
    fxi_vocab *v = NULL;
    FX_TRY(f->open(f->path, f->pre, &v, err));
    if (!v) return FX_OK; // not a vocabulary
    fx_status st = use(v, err);
    fxi_vocab_free(v);
    return st;
}

// A folder is opened and written as a quantized file.
static fx_status open_folder(const char *path, const char *pre, fxi_vocab **out, fx_error *err)
{
    static const char result[] = FX_BINARY_DIR "/test_short_memory.tmp";
    fxi_gguf *g;
    fxi_rewritten done;
    fxi_rewrite how = {.mixture = fxi_mixture_find("q4_0")};
    (void)pre;
    (void)out;
    FX_TRY(fxi_hf_open(path, &g, err));
    fx_status st = fxi_pool_create(1, &how.pool, err);
    if (st == FX_OK) st = fxi_rewrite_model(g, result, &how, &done, err);
    fxi_pool_destroy(how.pool);
    fxi_gguf_close(g);
    remove(result);
    return st;
}

static void fail_each(const form *f, bool all)
{
    for (long at = 0;; at++) {
        fx_error err = {0};
        failing.all = all;
        failing.n = 0;
        failing.at = at;
        failing.on = true;
        fx_status st = everything(f, &err);
        failing.on = false;
        if (failing.n <= at) {
            assert_int_equal(st, FX_OK);
            return;
        }
        if (st != FX_OK && st != FX_ENOMEM)
            fail_msg("%s, allocation %ld: %s", f->path, at, err.text);
        if (st != FX_OK) assert_true(*err.text && !strchr(err.text, '\n'));
    }
}

FX_TEST(test_each_allocation)
{
    static const form forms[] = {
        {open_json, "tokenizer.json", tokenizer_json},
        {open_json, "words.json", words_json},
        {open_file, FOLDER "ranks.tiktoken", "gpt-2"},
        {open_json, "unigram.json", unigram_json},
        {open_file, FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf", NULL},
        {open_folder, FX_SOURCE_DIR "/tests/vectors/folders/qwen3moe", NULL},
        {open_folder, FX_SOURCE_DIR "/tests/vectors/folders/phi3-long", NULL},
        {open_folder, FX_SOURCE_DIR "/tests/vectors/folders/bert-rank", NULL},
    };
    for (size_t i = 0; i < COUNT(forms); i++) {
        fx_error err = {0};
        if (everything(&forms[i], &err) != FX_OK) fail_msg("%s: %s", forms[i].path, err.text);
        fail_each(&forms[i], false);
        fail_each(&forms[i], true);
    }
}

FX_RUN(test_short_memory)
