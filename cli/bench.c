/* SPDX-License-Identifier: MIT
 *
 * vocis bench: where the time goes on this machine, beside what its arithmetic allows.
 */
#include "report.h"
#include "speech.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct settings {
    speech_options speech;
    int runs;
    bool json;
} settings;

static const option options[] = {
    MODEL_OPTIONS(settings),
    COMPUTE_OPTIONS(settings),
    {OPTION_INT, "runs", 'n', "N", "runs of which the median counts (5)",
     .at = offsetof(settings, runs), .min = 1, .max = 1000},
    {OPTION_FLAG, "json", 0, NULL, "print JSON", .at = offsetof(settings, json)},
    QUIET_OPTION(settings),
    {.kind = OPTION_END},
};

static void print_table(const vocis_benchmark *b, const char *model, const speech *s) {
    double rate = b->encode_gflops / b->encode_seconds;
    output_printf("model %s in %s, %d threads, %s\n", model, vocis_model_compute(s->model),
                  vocis_engine_threads(s->engine), vocis_engine_cpu(s->engine));
    output_printf("%-20s %21.1f GFLOP/s\n", "peak of this machine", b->peak_gflops);
    output_puts("window of 30 s\n");
    output_printf("  %-12s %8.2f ms\n", "mel", 1e3 * b->mel_seconds);
    output_printf("  %-12s %8.2f ms %15.1f GFLOP/s  %3.0f %% of peak\n", "encode",
                  1e3 * b->encode_seconds, rate, 100 * rate / b->peak_gflops);
    output_printf("%-20s %21.1f GB/s\n", "memory is read at", b->read_gbs);
    output_puts("step of the decoder\n");
    for (int i = 0; i < VOCIS_STEP_TIMES; i++) {
        const vocis_step_time *t = &b->steps[i];
        if (t->seconds <= 0) continue;
        double gbs = t->megabytes / t->seconds / 1e3;
        output_printf(
            "  %2d row%-2s %2d window%-2s %8.2f ms %9.1f tokens/s %6.1f GB/s  %3.0f %% of "
            "memory\n",
            t->rows, t->rows > 1 ? "s" : "", t->windows, t->windows > 1 ? "s" : "",
            1e3 * t->seconds, t->rows / t->seconds, gbs, 100 * gbs / b->read_gbs);
    }
}

static void print_json(const vocis_benchmark *b, const char *model, const speech *s) {
    char *name = clean_line(model);
    double rate = b->encode_gflops / b->encode_seconds;
    json_t *steps = json_array();
    for (int i = 0; i < VOCIS_STEP_TIMES; i++)
        if (b->steps[i].seconds > 0)
            json_array_append_new(steps, json_pack("{s:i, s:i, s:f, s:f}", "rows", b->steps[i].rows,
                                                   "windows", b->steps[i].windows, "seconds",
                                                   b->steps[i].seconds, "megabytes",
                                                   b->steps[i].megabytes));
    json_t *o = json_pack("{s:s, s:s, s:s, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:I}",
                          "version", vocis_version(), "compute", vocis_model_compute(s->model),
                          "model", name, "threads", vocis_engine_threads(s->engine), "cpu",
                          vocis_engine_cpu(s->engine), "peak_gflops", b->peak_gflops, "read_gbs",
                          b->read_gbs, "mel_seconds", b->mel_seconds, "encode_seconds",
                          b->encode_seconds, "encode_gflop", b->encode_gflops, "encode_gflops",
                          rate, "encode_share_of_peak", rate / b->peak_gflops, "decoder_steps",
                          steps, "peak_memory_bytes", (json_int_t)vocis_memory_get().peak_bytes);
    char *text = checked(o ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL);
    output_printf("%s\n", text);
    free(text);
    json_decref(o);
    free(name);
}

static int run(const verb *v, int argc, char **argv) {
    enum { MOST_ROWS = 16, MOST_WINDOWS = 16 };
    settings s = {.runs = 5};
    speech open = {0};
    vocis_error err = {0};
    vocis_benchmark b;
    int n;
    const char **operands = checked(calloc((size_t)argc + 1, sizeof *operands));
    int status = options_parse(v, argc, argv, &s, operands, &n);
    free(operands);
    report_configure(s.speech.quiet, false);
    vocis_session_params session = vocis_session_default_params();
    session.max_sequences = MOST_ROWS / MOST_WINDOWS;
    session.max_windows = MOST_WINDOWS;
    session.max_workers = 1; /* all of them in one step */
    if (status < 0) status = speech_open(v, &s.speech, session, &open);
    if (status >= 0) return status;
    const char *model = speech_model_name(&s.speech);
    if (vocis_session_benchmark(open.session, s.runs, &b, &err) != VOCIS_OK)
        report_error(model, err.status, err.message);
    else if (s.json)
        print_json(&b, model, &open);
    else
        print_table(&b, model, &open);
    speech_close(&open);
    if (interrupted()) return EXIT_INTERRUPTED;
    return err.status == VOCIS_OK && output_flush() ? EXIT_DONE : EXIT_FAILED;
}

const verb verb_bench = {
    .name = "bench",
    .summary = "measure this machine with a model",
    .usage = "[options]",
    .about =
        "Measures the parts of a transcription on synthetic input: the spectrogram, the "
        "encoder, and decoder steps of 1, 5 and 16 rows, beside the rate of multiply-adds that "
        "the same kernels reach within the innermost cache.",
    .notes = "Examples:\n"
             "  vocis bench\n"
             "  vocis bench --model tiny.en --threads 1 --cpu avx2 --json\n",
    .options = options,
    .operands = OPERAND_NONE,
    .max_operands = 0,
    .run = run,
};
