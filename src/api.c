/* SPDX-License-Identifier: MIT
 *
 * vocis.h as thin calls into the pipelines. Here the engine is put together, errors change
 * their type, and nothing else happens.
 */
#include "vocis.h"

#include "audio/audio.h"
#include "audio/capture.h"
#include "backends/registry.h"
#include "base/memory.h"
#include "hub/hub.h"
#include "pipeline/channels.h"
#include "pipeline/convert.h"
#include "pipeline/coverage.h"
#include "pipeline/diarize.h"
#include "pipeline/engine.h"
#include "pipeline/inspect.h"
#include "pipeline/measure.h"
#include "pipeline/result.h"
#include "pipeline/speech.h"
#include "pipeline/stream.h"
#include "text/text.h"

#include <math.h>
#include <string.h>

_Static_assert((int)VOCIS_ERR_INTERNAL == (int)VO_ERR_INTERNAL, "status values are the same");
_Static_assert(sizeof(vocis_error) == sizeof(vo_error), "errors have the same layout");
_Static_assert(sizeof(vocis_input_device) == sizeof(vo_input_device), "devices too");
_Static_assert((int)VOCIS_LOG_ERROR == (int)VO_LOG_ERROR, "log levels are the same");

/* Every call works on a fresh vo_error, and the caller's first failure wins. */
static vocis_status finish(vocis_error *err, const vo_error *from, vo_status status) {
    if (status != VO_OK && err && err->status == VOCIS_OK) {
        err->status = (vocis_status)status;
        memcpy(err->message, from->message, sizeof err->message);
        if (!err->message[0]) {
            strncpy(err->message, vo_status_name(status), sizeof err->message - 1);
        }
    }
    return (vocis_status)status;
}

const char *vocis_status_name(vocis_status status) {
    return vo_status_name((vo_status)status);
}
const char *vocis_version(void) {
    return VO_VERSION;
}
void vocis_free(void *memory) {
    vo_free(memory);
}

vocis_memory vocis_memory_get(void) {
    vo_memory_stats stats = vo_memory_get_stats();
    return (vocis_memory){stats.active_bytes, stats.peak_bytes, stats.allocations};
}

/* ---- engine ------------------------------------------------------------------------------------
 */

vocis_engine_params vocis_engine_default_params(void) {
    return (vocis_engine_params){.log_level = VOCIS_LOG_WARN};
}

static vo_status create_engine(vocis_engine *e, const vocis_engine_params *p, vo_error *err) {
    uint32_t mask = UINT32_MAX;
    if (p->threads < 0) return vo_fail(err, VO_ERR_ARGUMENT, "threads must not be negative");
    if (p->cpu) {
        vo_status status = vo_cpu_level_mask(p->cpu, &mask, err);
        if (status != VO_OK) return status;
    }
    e->cpu_flags = vo_cpu_detect() & mask;
    vo_kernels_init(&e->kernels, e->cpu_flags);
    vo_cpu_describe(e->cpu_flags, e->cpu_text, sizeof e->cpu_text);
    e->pool = vo_pool_create(p->threads, err);
    if (!e->pool) return err->status;
    vo_log_line(&e->log, VO_LOG_INFO, "cpu %s, %d threads", e->cpu_text, vo_pool_threads(e->pool));
    return vo_runtime_create(&e->kernels, e->pool, &e->runtime, err);
}

vocis_status vocis_engine_create(vocis_engine_params params, vocis_engine **engine,
                                 vocis_error *err) {
    vo_error e = {0};
    *engine = NULL;
    vocis_engine *made = vo_alloc(sizeof *made);
    if (!made) return finish(err, &e, VO_ERR_MEMORY);
    made->log = (vo_log){(vo_log_fn)params.log, params.log_user, (vo_log_level)params.log_level};
    vo_status status = create_engine(made, &params, &e);
    if (status != VO_OK)
        vocis_engine_destroy(made);
    else
        *engine = made;
    return finish(err, &e, status);
}

void vocis_engine_destroy(vocis_engine *engine) {
    if (!engine) return;
    vo_runtime_destroy(&engine->runtime);
    vo_pool_destroy(engine->pool);
    vo_free(engine);
}

int vocis_engine_threads(const vocis_engine *engine) {
    return vo_pool_threads(engine->pool);
}
const char *vocis_engine_cpu(const vocis_engine *engine) {
    return engine->cpu_text;
}

/* ---- models ------------------------------------------------------------------------------------
 */

vocis_model_params vocis_model_default_params(void) {
    return (vocis_model_params){0};
}

static vo_hub_params hub_params(const vocis_engine *engine, const vocis_model_params *p) {
    return (vo_hub_params){.cache_dir = p->cache_dir,
                           .offline = p->offline,
                           .progress = p->progress,
                           .progress_user = p->progress_user,
                           .log = engine ? engine->log : (vo_log){0}};
}

vocis_status vocis_model_find(vocis_engine *engine, const char *name, vocis_model_params params,
                              char **path, vocis_error *err) {
    vo_error e = {0};
    vo_hub_params hub = hub_params(engine, &params);
    *path = NULL;
    return finish(err, &e, vo_hub_resolve(name, &hub, path, &e));
}

vocis_status vocis_model_open(vocis_engine *engine, const char *name, vocis_model_params params,
                              vocis_model **model, vocis_error *err) {
    vo_error e = {0};
    char *path = NULL;
    vo_hub_params hub = hub_params(engine, &params);
    *model = NULL;
    vo_status status = vo_hub_resolve(name, &hub, &path, &e);
    if (status == VO_OK) status = vo_model_load(engine, path, params.compute, model, &e);
    vo_free(path);
    return finish(err, &e, status);
}

void vocis_model_destroy(vocis_model *model) {
    vo_model_destroy(model);
}

const char *vocis_model_compute(const vocis_model *model) {
    return vo_compute_name(model->whisper->compute);
}

vocis_status vocis_model_inspect(const char *path, bool tensors, char **json, vocis_error *err) {
    vo_error e = {0};
    *json = NULL;
    return finish(err, &e, vo_inspect(path, tensors, json, &e));
}

vocis_convert_params vocis_convert_default_params(void) {
    return (vocis_convert_params){.dtype = "f16", .group_size = 64};
}

vocis_status vocis_model_convert(vocis_engine *engine, const char *path, const char *folder,
                                 vocis_convert_params params, vocis_error *err) {
    vo_error e = {0};
    return finish(err, &e, vo_convert(engine, path, folder, &params, &e));
}

int vocis_known_model_count(void) {
    return vo_hub_count();
}

vocis_status vocis_known_model_get(int index, vocis_known_model *out) {
    const vo_hub_model *m = vo_hub_at(index);
    if (!m) return VOCIS_ERR_ARGUMENT;
    *out = (vocis_known_model){m->name, m->family, m->repo, m->licence, m->description, m->bytes};
    return VOCIS_OK;
}

char *vocis_known_model_path(const char *name, const char *cache_dir) {
    vo_hub_params hub = {.cache_dir = cache_dir, .offline = true};
    return vo_hub_lookup(name, &hub);
}

int vocis_language_count(void) {
    int n = 0;
    while (vo_language_code(n)) n++;
    return n;
}
const char *vocis_language_code(int index) {
    return vo_language_code(index);
}
const char *vocis_language_name(int index) {
    return vo_language_name(index);
}
int vocis_language_find(const char *name) {
    return vo_language_find(name);
}

/* ---- sessions and transcription ----------------------------------------------------------------
 */

vocis_session_params vocis_session_default_params(void) {
    return (vocis_session_params){.max_sequences = 5, .max_windows = 1};
}

vocis_status vocis_session_create(vocis_model *model, vocis_session_params params,
                                  vocis_session **session, vocis_error *err) {
    vo_error e = {0};
    *session = NULL;
    return finish(err, &e, vo_session_create(model, params, session, &e));
}

void vocis_session_destroy(vocis_session *session) {
    vo_session_destroy(session);
}

vocis_transcribe_params vocis_transcribe_default_params(void) {
    return vo_transcribe_default_params();
}

vocis_status vocis_transcribe(vocis_session *session, const float *samples, int64_t n_samples,
                              vocis_transcribe_params params, vocis_result **result,
                              vocis_error *err) {
    vo_error e = {0};
    return finish(err, &e, vo_transcribe(session, samples, n_samples, NULL, &params, result, &e));
}

vocis_status vocis_transcribe_audio(vocis_session *session, vocis_audio *audio,
                                    vocis_transcribe_params params, vocis_result **result,
                                    vocis_error *err) {
    vo_error e = {0};
    return finish(err, &e,
                  vo_transcribe(session, audio->samples, audio->n_samples, &audio->samples, &params,
                                result, &e));
}

vocis_audio_params vocis_audio_default_params(void) {
    return (vocis_audio_params){.raw_channels = 1, .raw_format = "s16le", .channel = -1};
}

static vo_status audio_params(const vocis_audio_params *p, vo_audio_params *out, vo_error *err) {
    static const struct {
        const char *name;
        int value;
    } formats[] = {{"s16le", VO_RAW_S16LE},
                   {"f32le", VO_RAW_F32LE},
                   {"s32le", VO_RAW_S32LE},
                   {"u8", VO_RAW_U8}};
    *out = vo_audio_default_params();
    out->max_seconds = p->max_seconds;
    out->channel = p->channel;
    out->raw_rate = p->raw_rate;
    out->raw_channels = p->raw_channels;
    if (p->raw_rate <= 0 || !p->raw_format) return VO_OK;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(p->raw_format, formats[i].name) != 0) continue;
        out->raw_format = formats[i].value;
        return VO_OK;
    }
    return vo_fail(err, VO_ERR_ARGUMENT, "raw format \"%s\" is none of s16le, f32le, s32le, u8",
                   p->raw_format);
}

static void export_audio(const vo_audio *from, vocis_audio *to) {
    *to = (vocis_audio){.samples = from->samples,
                        .n_samples = from->n_samples,
                        .duration = from->duration,
                        .source_rate = from->source_rate,
                        .source_channels = from->source_channels};
    memcpy(to->format, from->format, sizeof to->format);
    memcpy(to->warning, from->warning, sizeof to->warning);
}

vocis_status vocis_audio_load(const char *path, vocis_audio_params params, vocis_audio *audio,
                              vocis_error *err) {
    vo_error e = {0};
    vo_audio_params p;
    vo_audio loaded = {0};
    *audio = (vocis_audio){0};
    vo_status status = audio_params(&params, &p, &e);
    if (status == VO_OK) status = vo_audio_load(path, &p, &loaded, &e);
    if (status == VO_OK) export_audio(&loaded, audio);
    return finish(err, &e, status);
}

vocis_status vocis_audio_load_stream(vocis_read_fn read, void *user, const char *name,
                                     vocis_audio_params params, vocis_audio *audio,
                                     vocis_error *err) {
    vo_error e = {0};
    vo_audio_params p;
    vo_audio loaded = {0};
    vo_source source = {read, user, name ? name : "stream"};
    *audio = (vocis_audio){0};
    vo_status status = audio_params(&params, &p, &e);
    if (status == VO_OK) status = vo_audio_load_source(&source, &p, &loaded, &e);
    if (status == VO_OK) export_audio(&loaded, audio);
    return finish(err, &e, status);
}

static vo_status sink_params(vocis_audio_params params, vocis_samples_fn take, void *take_user,
                             vo_audio_params *out, vo_error *err) {
    if (!take) return vo_fail(err, VO_ERR_ARGUMENT, "there is nobody to take the samples");
    const vo_status status = audio_params(&params, out, err);
    out->sink = take;
    out->sink_user = take_user;
    return status;
}

vocis_status vocis_audio_read(const char *path, vocis_audio_params params, vocis_samples_fn take,
                              void *take_user, vocis_audio *audio, vocis_error *err) {
    vo_error e = {0};
    vo_audio_params p;
    vo_audio loaded = {0};
    *audio = (vocis_audio){0};
    vo_status status = sink_params(params, take, take_user, &p, &e);
    if (status == VO_OK) status = vo_audio_load(path, &p, &loaded, &e);
    if (status == VO_OK) export_audio(&loaded, audio);
    return finish(err, &e, status);
}

vocis_status vocis_audio_read_stream(vocis_read_fn read, void *read_user, const char *name,
                                     vocis_audio_params params, vocis_samples_fn take,
                                     void *take_user, vocis_audio *audio, vocis_error *err) {
    vo_error e = {0};
    vo_audio_params p;
    vo_audio loaded = {0};
    vo_source source = {read, read_user, name ? name : "stream"};
    *audio = (vocis_audio){0};
    vo_status status = sink_params(params, take, take_user, &p, &e);
    if (status == VO_OK) status = vo_audio_load_source(&source, &p, &loaded, &e);
    if (status == VO_OK) export_audio(&loaded, audio);
    return finish(err, &e, status);
}

void vocis_audio_free(vocis_audio *audio) {
    if (!audio) return;
    vo_free(audio->samples);
    memset(audio, 0, sizeof *audio);
}

vocis_status vocis_transcribe_file(vocis_session *session, const char *path,
                                   vocis_transcribe_params params, vocis_result **result,
                                   vocis_error *err) {
    vocis_audio audio = {0};
    *result = NULL;
    vocis_status status = vocis_audio_load(path, vocis_audio_default_params(), &audio, err);
    if (status != VOCIS_OK) return status;
    if (audio.warning[0] && params.on_warning) params.on_warning(params.user, audio.warning);
    status = vocis_transcribe_audio(session, &audio, params, result, err);
    vocis_audio_free(&audio);
    return status;
}

vocis_status vocis_transcribe_pull(vocis_session *session, vocis_pull_fn pull, void *pull_user,
                                   vocis_transcribe_params params, vocis_result **result,
                                   vocis_error *err) {
    enum { CHUNK = 16000 };
    vo_error e = {0};
    vo_buf bytes = {0};
    float *chunk = vo_alloc(CHUNK * sizeof *chunk);
    int64_t got = chunk ? 1 : 0;
    *result = NULL;
    while (got > 0 && !bytes.failed && (got = pull(pull_user, chunk, CHUNK)) > 0)
        vo_buf_append(&bytes, chunk, (size_t)(got < CHUNK ? got : CHUNK) * sizeof *chunk);
    float *samples = (float *)(void *)bytes.data;
    vo_status status = VO_OK;
    if (!chunk || bytes.failed)
        status = vo_fail(&e, VO_ERR_MEMORY, "no memory for the samples");
    else if (got < 0)
        status = vo_fail(&e, VO_ERR_IO, "the source of samples failed");
    else
        status = vo_transcribe(session, samples, (int64_t)(bytes.size / sizeof *samples), &samples,
                               &params, result, &e);
    vo_free(chunk);
    vo_free(samples);
    return finish(err, &e, status);
}

vocis_status vocis_detect_language(vocis_session *session, const float *samples, int64_t n_samples,
                                   float *probabilities, int *best, vocis_error *err) {
    vo_error e = {0};
    return finish(err, &e,
                  vo_detect_language(session, samples, n_samples, probabilities, best, &e));
}

/* ---- results -----------------------------------------------------------------------------------
 */

int vocis_result_segment_count(const vocis_result *r) {
    return r->n_segments;
}
const vocis_segment *vocis_result_segment(const vocis_result *r, int index) {
    return index >= 0 && index < r->n_segments ? &r->segments[index] : NULL;
}
const char *vocis_result_text(const vocis_result *r) {
    return r->text;
}
const char *vocis_result_language(const vocis_result *r) {
    return r->language;
}
float vocis_result_language_probability(const vocis_result *r) {
    return r->language_probability;
}
double vocis_result_duration(const vocis_result *r) {
    return r->duration;
}
int vocis_result_account_count(const vocis_result *r) {
    return r->n_account;
}
const vocis_account *vocis_result_account(const vocis_result *r, int index) {
    return index >= 0 && index < r->n_account ? &r->account[index] : NULL;
}
const char *vocis_cover_name(vocis_cover cover) {
    return vo_cover_name(cover);
}
vocis_coverage vocis_result_coverage(const vocis_result *r) {
    return r->coverage;
}
int vocis_result_removed_count(const vocis_result *r) {
    return r->n_removed;
}
const vocis_removed *vocis_result_removed(const vocis_result *r, int index) {
    return index >= 0 && index < r->n_removed ? &r->removed[index] : NULL;
}
vocis_timings vocis_result_timings(const vocis_result *r) {
    return r->timings;
}
void vocis_result_destroy(vocis_result *r) {
    vo_result_destroy(r);
}

vocis_write_params vocis_write_default_params(void) {
    return (vocis_write_params){.json_tokens = true};
}

vocis_status vocis_result_write(const vocis_result *result, const char *format,
                                vocis_write_params params, char **document, size_t *size,
                                vocis_error *err) {
    vo_error e = {0};
    *document = NULL;
    return finish(err, &e, vo_result_write(result, format, params, document, size, &e));
}

/* ---- streams and microphones -------------------------------------------------------------------
 */

vocis_stream_params vocis_stream_default_params(void) {
    return vo_stream_default_params();
}

vocis_status vocis_stream_create(vocis_session *session, vocis_stream_params params,
                                 vocis_stream **stream, vocis_error *err) {
    vo_error e = {0};
    *stream = NULL;
    return finish(err, &e, vo_stream_create(session, &params, stream, &e));
}

vocis_status vocis_stream_push(vocis_stream *stream, const float *samples, int64_t n,
                               vocis_error *err) {
    vo_error e = {0};
    return finish(err, &e, vo_stream_push(stream, samples, n, &e));
}

vocis_status vocis_stream_next(vocis_stream *stream, double seconds, vocis_event *event,
                               vocis_error *err) {
    vo_error e = {0};
    return finish(err, &e, vo_stream_next(stream, seconds, event, &e));
}

void vocis_stream_finish(vocis_stream *stream) {
    vo_stream_finish(stream);
}
void vocis_stream_destroy(vocis_stream *stream) {
    vo_stream_destroy(stream);
}

vocis_status vocis_input_devices(vocis_input_device **devices, int *n, vocis_error *err) {
    vo_error e = {0};
    vo_input_device *found = NULL;
    const vo_status status = vo_portaudio_list(&found, n, &e);
    *devices = (vocis_input_device *)found; /* of the same layout, as stated above */
    return finish(err, &e, status);
}

vocis_status vocis_capture_open(const char *device, vocis_capture **capture, vocis_error *err) {
    static const char file[] = "file:";
    vo_error e = {0};
    vo_device *opened = NULL;
    vo_capture *made = NULL;
    vo_status status = device && strncmp(device, file, sizeof file - 1) == 0
                           ? vo_playback_create(device + sizeof file - 1, &opened, &e)
                           : vo_portaudio_create(device, &opened, &e);
    if (status == VO_OK) status = vo_capture_create(opened, &made, &e);
    *capture = (vocis_capture *)made;
    return finish(err, &e, status);
}

int64_t vocis_capture_read(vocis_capture *capture, float *samples, int64_t size, double seconds) {
    return vo_capture_read((vo_capture *)capture, samples, size, seconds);
}

vocis_capture_stats vocis_capture_get_stats(const vocis_capture *capture) {
    const vo_capture_stats s = vo_capture_get_stats((const vo_capture *)capture);
    return (vocis_capture_stats){s.lost_samples, s.overflows, s.losses, s.connected};
}

void vocis_capture_close(vocis_capture *capture) {
    vo_capture_destroy((vo_capture *)capture);
}

/* ---- text, speech, measuring -------------------------------------------------------------------
 */

char *vocis_normalize(const char *text, const char *language) {
    bool english = language && (strcmp(language, "en") == 0 || strcmp(language, "english") == 0);
    return english ? vo_normalize_english(text) : vo_normalize_basic(text, false, false);
}

vocis_status vocis_compare(const char *reference, const char *hypothesis, bool characters,
                           vocis_error_rate *out, vocis_error *err) {
    vo_error e = {0};
    vo_error_rate rate = {0};
    vo_status status = characters ? vo_char_errors(reference, hypothesis, &rate, &e)
                                  : vo_word_errors(reference, hypothesis, &rate, &e);
    *out = (vocis_error_rate){rate.substitutions, rate.deletions, rate.insertions, rate.reference};
    return finish(err, &e, status);
}

vocis_speech_params vocis_speech_default_params(void) {
    return vo_speech_default_params();
}

vocis_status vocis_detect_speech(vocis_engine *engine, const float *samples, int64_t n_samples,
                                 vocis_speech_params params, vocis_span **spans, int *n_spans,
                                 vocis_error *err) {
    vo_error e = {0};
    return finish(err, &e,
                  vo_detect_speech(engine, samples, n_samples, &params, spans, n_spans, &e));
}

vocis_diarize_params vocis_diarize_default_params(void) {
    return vo_diarize_default_params();
}

vocis_status vocis_diarize(vocis_engine *engine, const float *samples, int64_t n_samples,
                           vocis_diarize_params params, vocis_turn **turns, int *n_turns,
                           vocis_error *err) {
    vo_error e = {0};
    return finish(err, &e, vo_diarize(engine, samples, n_samples, &params, turns, n_turns, &e));
}

vocis_status vocis_result_assign_speakers(vocis_result *result, const vocis_turn *turns,
                                          int n_turns, vocis_error *err) {
    vo_error e = {0};
    return finish(err, &e, vo_assign_speakers(result, turns, n_turns, &e));
}

vocis_status vocis_channels_separate(vocis_engine *engine, const vocis_audio channels[2],
                                     bool *separate, vocis_error *err) {
    vo_error e = {0};
    const int64_t a = channels[0].n_samples, b = channels[1].n_samples;
    return finish(err, &e,
                  vo_channels_separate(engine, channels[0].samples, channels[1].samples,
                                       a < b ? a : b, separate, &e));
}

vocis_status vocis_channels_diarize(vocis_engine *engine, vocis_audio *channels, int n_channels,
                                    vocis_turn **turns, int *n_turns, vocis_error *err) {
    vo_error e = {0};
    return finish(err, &e, vo_channels_diarize(engine, channels, n_channels, turns, n_turns, &e));
}

vocis_status vocis_transcribe_channels(vocis_session *session, vocis_audio *channels,
                                       int n_channels, vocis_transcribe_params params,
                                       vocis_result **result, vocis_error *err) {
    vo_error e = {0};
    return finish(err, &e,
                  vo_transcribe_channels(session, channels, n_channels, &params, result, &e));
}

vocis_status vocis_session_benchmark(vocis_session *session, int runs, vocis_benchmark *out,
                                     vocis_error *err) {
    vo_error e = {0};
    return finish(err, &e, vo_benchmark(session, runs, out, &e));
}
