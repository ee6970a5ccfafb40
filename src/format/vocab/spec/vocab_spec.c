// vocab_spec.c - a spec's memory: strings in blocks that never move, growing arrays; searching it;
// pre-tokenizers by name.
#include "format/vocab/spec/vocab_spec.h"
#include "base/system/grow.h"
#include "base/text/utf8.h" // defines: fxi_utf8_vprint
#include "format/show.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 16 };

struct fxi_spec_block {
    struct fxi_spec_block *next;
    size_t used, size;
    char text[];
};

void fxi_vocab_spec_init(fxi_vocab_spec *s, const char *name)
{
    *s = (fxi_vocab_spec){.name = name, .bos = -1, .eos = -1, .unk = -1};
}

void fxi_vocab_spec_free(fxi_vocab_spec *s)
{
    for (struct fxi_spec_block *b = s->pool, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(s->tok);
    free(s->merge);
    for (size_t i = 0; i < s->n_norm; i++) fxi_regex_free(s->norm[i].regex);
    free(s->norm);
    for (size_t i = 0; i < s->n_split; i++) {
        fxi_regex_free(s->split[i].regex);
        fxi_regex_free(s->split[i].change.regex);
    }
    free(s->split);
    fxi_ids_free(&s->ends);
    fxi_vocab_spec_init(s, s->name);
}

bool fxi_spec_warn(fxi_vocab_spec *s, const char *fmt, ...)
{
    char text[FX_ERROR_TEXT_BYTES];
    va_list args;
    fxi_str kept;
    if (s->warning) return true;
    const int head = snprintf(text, sizeof text, "%s: ", s->name);
    const size_t n_head = (size_t)head < sizeof text ? (size_t)head : sizeof text - 1;
    va_start(args, fmt);
    fxi_utf8_vprint(text + n_head, sizeof text - n_head, fmt, args);
    va_end(args);
    if (!fxi_spec_str(s, text, strlen(text) + 1, &kept)) return false;
    s->warning = kept.p;
    return true;
}

bool fxi_spec_str(fxi_vocab_spec *s, const char *p, size_t n, fxi_str *out)
{
    struct fxi_spec_block *b = s->pool;
    if (!b || b->size - b->used < n) {
        const size_t size = n > BLOCK_BYTES ? n : BLOCK_BYTES;
        b = malloc(sizeof *b + size);
        if (!b) return false;
        *b = (struct fxi_spec_block){.next = s->pool, .size = size};
        s->pool = b;
    }
    *out = (fxi_str){b->text + b->used, n};
    if (n) memcpy(b->text + b->used, p, n);
    b->used += n;
    return true;
}

bool fxi_spec_add_token(fxi_vocab_spec *s, fxi_token t)
{
    bool ok = fxi_grow(&s->tok, sizeof *s->tok, s->n_tok, &s->cap_tok) &&
              fxi_spec_str(s, t.piece.p, t.piece.n, &t.piece);
    if (ok) s->tok[s->n_tok++] = t;
    return ok;
}

bool fxi_spec_add_merge(fxi_vocab_spec *s, fxi_spec_merge m)
{
    bool ok = fxi_grow(&s->merge, sizeof *s->merge, s->n_merge, &s->cap_merge);
    if (ok) s->merge[s->n_merge++] = m;
    return ok;
}

bool fxi_spec_add_norm(fxi_vocab_spec *s, fxi_norm n)
{
    bool ok = fxi_grow(&s->norm, sizeof *s->norm, s->n_norm, &s->cap_norm) &&
              fxi_spec_str(s, n.from.p, n.from.n, &n.from) &&
              fxi_spec_str(s, n.to.p, n.to.n, &n.to);
    if (ok) s->norm[s->n_norm++] = n;
    return ok;
}

bool fxi_spec_add_split(fxi_vocab_spec *s, fxi_split p)
{
    bool ok = fxi_grow(&s->split, sizeof *s->split, s->n_split, &s->cap_split) &&
              fxi_spec_str(s, p.pattern.p, p.pattern.n, &p.pattern) &&
              fxi_spec_str(s, p.change.from.p, p.change.from.n, &p.change.from) &&
              fxi_spec_str(s, p.change.to.p, p.change.to.n, &p.change.to);
    if (ok) s->split[s->n_split++] = p;
    return ok;
}

int32_t fxi_spec_find(const fxi_vocab_spec *s, fxi_str piece)
{
    for (size_t id = s->n_tok; id-- > 0;)
        if (s->tok[id].piece.n == piece.n && !memcmp(s->tok[id].piece.p, piece.p, piece.n))
            return (int32_t)id;
    return -1;
}

fxi_str fxi_spec_piece(const void *of, int32_t id)
{
    return ((const fxi_vocab_spec *)of)->tok[id].piece;
}

bool fxi_spec_index(const fxi_vocab_spec *s, fxi_index *x)
{
    bool ok = true;
    *x = fxi_index_make(fxi_spec_piece, s);
    for (int normal = 0; normal < 2; normal++)
        for (size_t i = 0; ok && i < s->n_tok; i++) {
            uint8_t type = s->tok[i].type;
            if ((type != FXI_TOKEN_USER && type != FXI_TOKEN_CONTROL) == normal)
                ok = fxi_index_put(x, (int32_t)i);
        }
    if (!ok) fxi_index_free(x);
    return ok;
}

// ---- BERT's steps: what they do to a text, and how they cut it ----------------------------------

bool fxi_spec_add_bert_norms(fxi_vocab_spec *s, fxi_bert how)
{
    const struct {
        bool wanted;
        fxi_norm_kind kind;
    } steps[] = {
        {how.cleans, FXI_NORM_CLEAN},     {how.pads_han, FXI_NORM_PAD_HAN},
        {how.strips, FXI_NORM_NFD},       {how.strips, FXI_NORM_STRIP_MN},
        {how.lowers, FXI_NORM_LOWERCASE},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].wanted && !fxi_spec_add_norm(s, (fxi_norm){.kind = steps[i].kind}))
            return false;
    return true;
}

bool fxi_spec_add_bert_splits(fxi_vocab_spec *s)
{
    const fxi_split spaces = {.pattern = fxi_str_of("\\p{White_Space}"), .how = FXI_SPLIT_REMOVED},
                    marks = {.pattern = fxi_str_of("[!-/:-@\\[-`{-~\\p{P}]")};
    return fxi_spec_add_split(s, spaces) && fxi_spec_add_split(s, marks);
}

// ---- pre-tokenizers by name ---------------------------------------------------------------------

// The names are those of tokenizer.ggml.pre. A name stands for the patterns that its models were
// trained with. A name that is not in the table is an error: a text cut in another way becomes
// tokens that the model has not seen in training.

// The parts of a pattern: contractions, words, numbers, everything else, white space.
#define SPACE                   "\\p{White_Space}"
#define SPACES                  SPACE "+(?!\\P{White_Space})|" SPACE "+"
#define LINES                   SPACE "*[\\r\\n]+|" SPACES
#define CONTRACTION             "'s|'t|'re|'ve|'m|'ll|'d"
#define ANY_CASE                "(?i:" CONTRACTION ")"
#define OTHERS                  "| ?[^\\p{White_Space}\\p{L}\\p{N}]+"
#define GPT2                    CONTRACTION "| ?\\p{L}+| ?\\p{N}+" OTHERS "|" SPACES
#define WORD                    "[^\\r\\n\\p{L}\\p{N}]?"
#define LETTERS(digits, others) WORD "\\p{L}+|\\p{N}" digits others
#define CL100K(digits)          ANY_CASE "|" LETTERS(digits, OTHERS "[\\r\\n]*|" LINES)
#define QWEN35                                 \
    ANY_CASE "|" WORD "[\\p{L}\\p{M}]+|\\p{N}" \
             "| ?[^\\p{White_Space}\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES
// White space in powers of two.
#define JAIS2                                                                                     \
    ANY_CASE "|" LETTERS("{1,3}",                                                                 \
                         OTHERS "[\\r\\n]*|" SPACE "*[\\r\\n]+|" RUN("512") RUN("256") RUN("128") \
                             RUN("64") RUN("32") RUN("16") RUN("8") RUN("4") RUN("1,2") SPACE)
#define RUN(n)   SPACE "{" n "}(?!\\P{White_Space})|"
#define ONE_LINE SPACE "*[\\r\\n]|" SPACES // a line end of its own
#define BAILING \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}" OTHERS "+[\\r\\n]*|" ONE_LINE
#define EXAONE_MOE \
    ANY_CASE "|" WORD "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}" OTHERS "[\\r\\n/]?|" ONE_LINE
#define SEED_CODER ANY_CASE "|" LETTERS("", "| ?[^\\p{White_Space}\\p{L}\\p{N}\\r\\n]+|" LINES)
#define AYA_DIGITS                                                                         \
    "\\p{Nd}{1,3}(?=(?:\\p{Nd}{3})*(?![\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\xB2\\xB3\\xB9" \
    "\\xBC-\\xBE]))"                                                  // before the end of a word
#define GROUPS(digit) digit "{1,3}(?=(?:" digit "{3})*(?!" digit "))" // in threes from the end
// Words in which the case changes at most once, from upper to lower.
#define UPPER         "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER         "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end)    WORD UPPER "*" LOWER "+" end "|" WORD UPPER "+" LOWER "*" end
#define TEKKEN        CASED("") "|\\p{N}" OTHERS "[\\r\\n/]*|" LINES
#define O200K         CASED(ANY_CASE "?") "|\\p{N}{1,3}" OTHERS "[\\r\\n/]*|" LINES
#define YOUTU         CASED(ANY_CASE "?") "|\\p{N}" OTHERS "[\\r\\n/]*|" LINES
// The same without Han characters, which are words of their own.
#define NO_HAN        "(?!\\p{sc:Han})"
#define UPPER_NO_HAN  "(?:" NO_HAN UPPER ")"
#define LOWER_NO_HAN  "(?:" NO_HAN LOWER ")"
#define KIMI_K2                                                                            \
    "\\p{sc:Han}+|" WORD UPPER_NO_HAN "*" LOWER_NO_HAN "+" ANY_CASE "?|" WORD UPPER_NO_HAN \
    "+" LOWER_NO_HAN "*" ANY_CASE "?|\\p{N}{1,3}" OTHERS "[\\r\\n]*|" LINES
#define DIGIT       "\\p{N}"
#define DIGITS      "\\p{N}+"
#define BYTE_DIGITS "[0-9\\xB2\\xB3\\xB9\\xBC-\\xBE]+" // Latin-1's, as GPT-2 spells bytes
#define LINE_END    "[\\r\\n]"
#define MARKS_END   "\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C}"
#define BLOOM       " ?[^(\\p{White_Space}|.,!?" MARKS_END ")]+"
#define HAN_HANGUL  "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define HAN_KANA    "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define MARKED_WORDS                                        \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" \
    "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
#define DEEPSEEK_V3 MARKED_WORDS "[\\r\\n]*|" LINES
#define SPARK       MARKED_WORDS "|[\\r\\n]|" SPACES
#define YOUTU_SCRIPTS                                                                          \
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}" \
    "\\x{2019}\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+"    \
    "|[\\x{3105}-\\x{312F}]+|" HAN_KANA
#define AFMOE_SCRIPTS                                                                             \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-"     \
    "\\x{30FF}\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{E80}-\\x{EFF}\\x{1780}-" \
    "\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}"       \
    "\\x{1100}-\\x{11FF}]+"
// Letters of scripts with two cases, by the Unicode version of that time.
#define DEEPSEEK_LETTERS                                                                          \
    SPACE "?["                                                                                    \
          "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"          \
          "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"  \
          "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"           \
          "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                \
          "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"          \
          "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"          \
          "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}"          \
          "\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}"  \
          "\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}" \
          "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"           \
          "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-"  \
          "\\x{212D}"                                                                             \
          "\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}"  \
          "\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}"  \
          "\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}"          \
          "\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}"          \
          "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"      \
          "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"  \
          "\\x{1E900}-\\x{1E943}"                                                                 \
          "]+"
#define DEEPSEEK_MARKS                                     \
    SPACE "?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}" \
          "\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"

enum { MAX_PATTERN = 6 };

typedef enum pre_flag {
    WHOLE_WORDS = 1, // a word that is a token is not merged
    ADDS_BOS = 2,
    NFC = 4,
    MARKS = 8, // pieces are text with U+2581 for spaces, and byte tokens, as in SentencePiece
    ADDS_SEP = 16,
} pre_flag;

static const struct pre_tokenizer {
    const char *names;                // each followed by a space
    const char *pattern[MAX_PATTERN]; // up to the first NULL
    unsigned flags;
    size_t bytes_from; // patterns from this one on look at bytes; 0: none does
} table[] = {
    {.names =
         "gpt-2 gpt2 phi-2 gpt-neox mpt olmo jais minimind gigachat trillion mellum modern-bert "
         "a.x-4.0 granite-docling "
         "exaone4 jina-es jina-de jina-v2-es jina-v2-de ",
     .pattern = {GPT2}},
    {.names = "jina-v1-en jina-v2-code roberta-bpe ", .pattern = {GPT2}, .flags = ADDS_SEP},
    {.names = "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2 ",
     .pattern = {DIGIT, GPT2}},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ",
     .pattern = {CL100K("{1,3}")},
     .flags = WHOLE_WORDS | ADDS_BOS},
    {.names = "gpt-4 cl100k dbrx smaug-bpe chatglm-bpe glm4 ", .pattern = {CL100K("{1,3}")}},
    {.names = "qwen2 ", .pattern = {CL100K("")}, .flags = NFC},
    {.names = "stablelm2 deepseek-r1-qwen megrez hunyuan kormo f2llmv2 grok-2 solar-open ",
     .pattern = {CL100K("")}},
    {.names = "laguna ", .pattern = {"[^\\n]+|\\n+", CL100K("")}},
    {.names = "ufakzeka ", .pattern = {LETTERS("", OTHERS "[\\r\\n]*|" LINES)}},
    {.names = "minicpm5 ", .pattern = {"\\p{N}{1,3}", CL100K("+")}, .flags = WHOLE_WORDS},
    {.names = "jais-2 ", .pattern = {JAIS2}},
    {.names = "seed-coder ", .pattern = {SEED_CODER}},
    {.names = "bailingmoe bailingmoe2 llada-moe ", .pattern = {BAILING}},
    {.names = "exaone-moe ", .pattern = {EXAONE_MOE}},
    {.names = "qwen35 ", .pattern = {QWEN35}, .flags = NFC},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2 ", .pattern = {O200K}},
    {.names = "granite-embed-multi-97m ", .pattern = {O200K}, .flags = WHOLE_WORDS},
    {.names = "tiny_aya cohere2moe ", .pattern = {AYA_DIGITS, O200K}},
    {.names = "youtu ", .pattern = {YOUTU_SCRIPTS, YOUTU}, .flags = WHOLE_WORDS},
    {.names = "kimi-k2 ", .pattern = {KIMI_K2}},
    {.names = "tekken ", .pattern = {TEKKEN}, .flags = WHOLE_WORDS | ADDS_BOS},
    {.names = "deepseek-llm ",
     .pattern = {LINE_END, DEEPSEEK_LETTERS, DEEPSEEK_MARKS, SPACE "+$", HAN_HANGUL, DIGITS}},
    {.names = "deepseek-coder ",
     .pattern = {LINE_END, SPACE "?\\p{L}+", SPACE "?\\p{P}+", HAN_HANGUL, DIGIT}},
    {.names = "deepseek-v3 hunyuan-dense hy_v4 joyai-llm ",
     .pattern = {"\\p{N}{1,3}", HAN_KANA, DEEPSEEK_V3}},
    {.names = "spark2_5 ", .pattern = {"\\p{N}{1,3}", HAN_KANA, SPARK, "\\p{N}"}},
    {.names = "afmoe ", .pattern = {GROUPS("\\p{N}"), AFMOE_SCRIPTS, DEEPSEEK_V3}},
    {.names = "superbpe ", .pattern = {DIGITS, "(?=(?:\\p{Nd}{3})+(?!\\p{Nd}))"}},
    {.names = "chameleon ",
     .pattern = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", DIGIT,
                 "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
     .flags = ADDS_BOS},
    {.names = "gemma4 granite-embed-multi-311m ",
     .pattern = {"[^\\n]+|\\n+"},
     .flags = MARKS | WHOLE_WORDS},
    {.names = "sarvam-moe ", .pattern = {"[^\\n]+|\\n+"}, .flags = MARKS},
    {.names = "falcon ",
     .pattern = {"[!-/:-@\\[-`{-~\\p{P}]+", GPT2, BYTE_DIGITS, "[0-9][0-9][0-9]"},
     .bytes_from = 2},
    {.names = "bloom poro-chat gpt3-finnish ", .pattern = {BLOOM}},
    {.names = "viking ", .pattern = {BLOOM, DIGIT}},
    {.names = "default ",
     .pattern = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, DIGITS, "[0-9][0-9][0-9]"}},
};

enum { N_PRE = sizeof table / sizeof *table };

fx_status fxi_spec_add_pre(fxi_vocab_spec *s, fxi_str name, fx_error *err)
{
    const struct pre_tokenizer *p = NULL;
    for (size_t i = 0; !p && i < N_PRE; i++)
        for (const char *at = table[i].names; !p && *at; at += strcspn(at, " ") + 1)
            if (strcspn(at, " ") == name.n && !memcmp(at, name.p, name.n)) p = &table[i];
    if (!p)
        return fxi_fail(err, FX_EFORMAT, "%s: unknown pre-tokenizer '%s'", s->name,
                        fxi_show_text(name).s);
    bool ok = true;
    if (p->flags & MARKS) { // of kind MERGES
        const fxi_norm marks = {
            .kind = FXI_NORM_REPLACE, .from = {" ", 1}, .to = fxi_str_of(FXI_SPACE_MARK)};
        s->unit_bytes = false;
        s->byte_fallback = true;
        s->spelling = FXI_SPELL_MARKS;
        ok = fxi_spec_add_norm(s, marks);
    }
    if (p->flags & NFC) ok = ok && fxi_spec_add_norm(s, (fxi_norm){.kind = FXI_NORM_NFC});
    for (size_t i = 0; ok && i < MAX_PATTERN && p->pattern[i]; i++) {
        fxi_split split = {.pattern = {p->pattern[i], strlen(p->pattern[i])},
                           .bytes = p->bytes_from && i >= p->bytes_from};
        ok = fxi_spec_add_split(s, split);
    }
    s->whole_words |= (p->flags & WHOLE_WORDS) != 0;
    s->adds_bos |= (p->flags & ADDS_BOS) != 0;
    s->adds_sep |= (p->flags & ADDS_SEP) != 0;
    return ok ? FX_OK : fxi_fail_memory(err);
}
