// fuzz_main.c - runs a fuzz target without libFuzzer:
//
//     fuzz TARGET --runs N               the seeds, then N mutations, with FX_TEST_LONG four times
//                                        N; run i is always the same
//     fuzz TARGET FILE ..                these inputs, e.g. one that has crashed
//     fuzz TARGET --corpus FILE          the inputs of a corpus
//     fuzz TARGET --pack FILE INPUT ..   packs these files, sorted by size, without duplicates
//     fuzz TARGET --unpack FILE DIR      writes the inputs of a corpus as files, for libFuzzer
//     fuzz TARGET --write-seeds DIR      writes the seeds as files: a first corpus for libFuzzer
//     fuzz --list                        the names of the targets
//
// With --runs a child process does the runs. If it dies, the parent makes the input of that run
// once more and writes it to a file.
//
// A corpus is one file: for each input its length in bytes, 32 bits, little-endian, then the bytes.
#include <endian.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/number/rng.h"
#include "fuzz.h"

enum { MAX_SEED = 128, MAX_MUTATIONS = 6, MAX_BLOCK = 64 };

// The header, which CMake writes, has a FUZZ_ROW(NAME) for each target.
#define FUZZ_ROW(name) FUZZ_TARGET(name);
#include "fuzz_rows.h"
#undef FUZZ_ROW

typedef struct target {
    const char *name;
    int (*run)(const uint8_t *data, size_t n_bytes);
    bool (*seed)(unsigned i, fxi_buf *out);
} target;

#define FUZZ_ROW(name) {#name, name##_run, name##_seed},
static const target targets[] = {
#include "fuzz_rows.h"
};

static const target *tried; // the one that the command line names

typedef struct seeds {
    fxi_buf seed[MAX_SEED];
    unsigned n;
} seeds;

typedef struct dice {
    uint64_t run, i;
} dice;

static uint64_t roll_dice(dice *d, uint64_t below)
{
    return below ? fxi_rng_u64(1, d->run, d->i++) % below : 0;
}

static void must(bool ok)
{
    if (ok) return;
    perror("fuzz");
    exit(2);
}

//
// Mutations
//

static void insert_bytes(fxi_buf *b, size_t at, const char *p, size_t n)
{
    if (!n) return;
    must(fxi_buf_reserve(b, n));
    memmove(b->p + at + n, b->p + at, b->n - at);
    memcpy(b->p + at, p, n);
    b->n += n;
}

// clang-format off
static const uint64_t numbers[] = {
    0, 1, 2, 7, 8, 31, 32, 127, 128, 255, 256, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
    0x100000000, 0x2000000000000000, 0x4000000000000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000,
    0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFF8, 0xFFFFFFFFFFFFFFE0,
};
// clang-format on

static void mutate_input(fxi_buf *b, dice *d, const seeds *s)
{
    const uint64_t kind = roll_dice(d, 8);
    char block[8];
    size_t n, at;
    switch (kind) {
    case 0: // flips a bit
        if (b->n) b->p[roll_dice(d, b->n)] ^= (char)(1 << roll_dice(d, 8));
        break;
    case 1: // sets a byte
        if (b->n) b->p[roll_dice(d, b->n)] = (char)roll_dice(d, 256);
        break;
    case 2: // truncates
        b->n = roll_dice(d, b->n + 1);
        break;
    case 3: // erases a block
        n = roll_dice(d, MAX_BLOCK < b->n ? MAX_BLOCK : b->n + 1);
        at = roll_dice(d, b->n - n + 1);
        if (n) memmove(b->p + at, b->p + at + n, b->n - at - n);
        b->n -= n;
        break;
    case 4: { // inserts a piece of some seed at some place
        const fxi_buf *from = &s->seed[roll_dice(d, s->n)];
        n = roll_dice(d, MAX_BLOCK < from->n ? MAX_BLOCK : from->n + 1);
        at = roll_dice(d, from->n - n + 1);
        insert_bytes(b, roll_dice(d, b->n + 1), from->p + at, n);
        break;
    }
    case 5: // inserts bytes at random
        for (size_t i = 0; i < sizeof block; i++) block[i] = (char)roll_dice(d, 256);
        at = roll_dice(d, b->n + 1);
        insert_bytes(b, at, block, 1 + roll_dice(d, sizeof block));
        break;
    default: { // sets a number: twice as often
        const uint64_t v = numbers[roll_dice(d, sizeof numbers / sizeof *numbers)];
        n = (size_t)1 << roll_dice(d, 4);
        if (b->n >= n) memcpy(b->p + roll_dice(d, b->n - n + 1), &v, n);
        break;
    }
    }
}

// The input of a run: the seeds come first, as they are.
static void make_input(const seeds *s, uint64_t run, fxi_buf *b)
{
    dice d = {.run = run};
    const fxi_buf *seed = &s->seed[run < s->n ? run : roll_dice(&d, s->n)];
    fxi_buf_clear(b);
    must(fxi_buf_add(b, seed->p, seed->n));
    if (run < s->n) return;
    for (uint64_t i = 1 + roll_dice(&d, MAX_MUTATIONS); i; i--) mutate_input(b, &d, s);
}

//
// Runs
//

// The target sees a block of exactly n bytes, so that a sanitizer notices a byte read past the end.
static void run_input(const char *p, size_t n)
{
    uint8_t *exact = malloc(n ? n : 1);
    must(exact != NULL);
    if (n) memcpy(exact, p, n);
    tried->run(exact, n);
    free(exact);
}

static void load_seeds(seeds *s)
{
    while (s->n < MAX_SEED && tried->seed(s->n, &s->seed[s->n])) s->n++;
    must(s->n > 0);
}

static void free_seeds(seeds *s)
{
    for (unsigned i = 0; i < s->n; i++) fxi_buf_free(&s->seed[i]);
}

static void write_input(const char *path, const fxi_buf *b)
{
    FILE *f = fopen(path, "wb");
    must(f && fwrite(b->p, 1, b->n, f) == b->n);
    must(fclose(f) == 0);
}

static void run_all(const seeds *s, uint64_t n_run, volatile uint64_t *current)
{
    fxi_buf b = {0};
    for (uint64_t run = 0; run < n_run + s->n; run++) {
        *current = run;
        make_input(s, run, &b);
        run_input(b.p, b.n);
    }
    fxi_buf_free(&b);
}

static int report_crash(const seeds *s, uint64_t run)
{
    char path[80];
    fxi_buf b = {0};
    snprintf(path, sizeof path, "%s_crash.bin", tried->name);
    make_input(s, run, &b);
    write_input(path, &b);
    fprintf(stderr, "run %llu failed; its input is in %s\n", (unsigned long long)run, path);
    fxi_buf_free(&b);
    return 1;
}

static int run_mutations(uint64_t n_run)
{
    seeds s = {.n = 0};
    int status = 0;
    uint64_t *current =
        mmap(NULL, sizeof *current, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(current != MAP_FAILED);
    load_seeds(&s);
    pid_t child = fork();
    must(child >= 0);
    if (!child) {
        run_all(&s, n_run, current);
        free_seeds(&s);
        return 0; // through exit, so that leaks are looked for
    }
    must(waitpid(child, &status, 0) == child);
    if (status) status = report_crash(&s, *current);
    free_seeds(&s);
    return status;
}

static void write_numbered(const char *dir, const char *kind, unsigned i, const fxi_buf *b)
{
    char path[1024];
    const int n = snprintf(path, sizeof path, "%s/%s%03u", dir, kind, i);
    must(n > 0 && (size_t)n < sizeof path);
    write_input(path, b);
}

static int write_seeds(const char *dir)
{
    seeds s = {.n = 0};
    load_seeds(&s);
    for (unsigned i = 0; i < s.n; i++) write_numbered(dir, "seed", i, &s.seed[i]);
    free_seeds(&s);
    return 0;
}

//
// Files
//

static fxi_buf read_file(const char *path)
{
    fxi_buf b = {0};
    char part[4096];
    FILE *f = fopen(path, "rb");
    must(f != NULL);
    for (size_t n; (n = fread(part, 1, sizeof part, f));) must(fxi_buf_add(&b, part, n));
    fclose(f);
    return b;
}

static int run_files(char **paths, int n)
{
    for (int i = 0; i < n; i++) {
        fxi_buf b = read_file(paths[i]);
        run_input(b.p, b.n);
        fxi_buf_free(&b);
    }
    return 0;
}

// Runs the inputs of a corpus, or writes them into dir. Each input's number is written to stderr
// before it runs, so a crash names its input.
static int for_corpus(const char *path, const char *dir)
{
    fxi_buf corpus = read_file(path);
    unsigned i = 0;
    for (size_t at = 0; at < corpus.n; i++) {
        uint32_t n;
        must(corpus.n - at >= sizeof n);
        memcpy(&n, corpus.p + at, sizeof n);
        fxi_buf input = {.p = corpus.p + at + sizeof n, .n = le32toh(n)};
        must(corpus.n - at - sizeof n >= input.n);
        if (dir) write_numbered(dir, "input", i, &input);
        if (!dir) fprintf(stderr, "\rinput%03u", i);
        if (!dir) run_input(input.p, input.n);
        at += 4 + input.n;
    }
    fprintf(stderr, "\r%u inputs\n", i);
    fxi_buf_free(&corpus);
    return i ? 0 : 2;
}

static int compare_inputs(const void *a, const void *b)
{
    const fxi_buf *x = a, *y = b;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return x->n ? memcmp(x->p, y->p, x->n) : 0;
}

static int pack(const char *path, char **inputs, int n)
{
    fxi_buf corpus = {0}, *all = calloc((size_t)n, sizeof *all);
    must(all != NULL);
    for (int i = 0; i < n; i++) all[i] = read_file(inputs[i]);
    qsort(all, (size_t)n, sizeof *all, compare_inputs);
    for (int i = 0; i < n; i++)
        if (!i || compare_inputs(&all[i - 1], &all[i])) {
            const uint32_t length = htole32((uint32_t)all[i].n);
            must(all[i].n <= UINT32_MAX && fxi_buf_add(&corpus, &length, sizeof length));
            must(fxi_buf_add(&corpus, all[i].p, all[i].n));
        }
    write_input(path, &corpus);
    for (int i = 0; i < n; i++) fxi_buf_free(&all[i]);
    free(all);
    fxi_buf_free(&corpus);
    return 0;
}

static int print_usage(void)
{
    fprintf(stderr,
            "usage: fuzz TARGET --runs N | FILE .. | --corpus FILE | --pack FILE INPUT .. | "
            "--unpack FILE DIR | --write-seeds DIR\n       fuzz --list\n");
    return 2;
}

// argv: what follows the target's name.
static int run_target(int argc, char **argv)
{
    const char *verb = argv[0];
    if (argc == 2 && !strcmp(verb, "--runs")) {
        const uint64_t n_run = strtoull(argv[1], NULL, 10);
        return run_mutations(getenv("FX_TEST_LONG") ? 4 * n_run : n_run);
    }
    if (argc == 2 && !strcmp(verb, "--corpus")) return for_corpus(argv[1], NULL);
    if (argc == 3 && !strcmp(verb, "--unpack")) return for_corpus(argv[1], argv[2]);
    if (argc >= 3 && !strcmp(verb, "--pack")) return pack(argv[1], argv + 2, argc - 2);
    if (argc == 2 && !strcmp(verb, "--write-seeds")) return write_seeds(argv[1]);
    return !strncmp(verb, "--", 2) ? print_usage() : run_files(argv, argc);
}

int main(int argc, char **argv)
{
    const bool lists = argc == 2 && !strcmp(argv[1], "--list");
    if (argc < 3 && !lists) return print_usage();
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        if (lists) puts(targets[i].name);
        if (!strcmp(targets[i].name, argv[1])) tried = &targets[i];
    }
    if (lists) return 0;
    if (tried) return run_target(argc - 2, argv + 2);
    fprintf(stderr, "fuzz: there is no target %s; --list lists them\n", argv[1]);
    return 2;
}
