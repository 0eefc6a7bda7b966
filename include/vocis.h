/* SPDX-License-Identifier: MIT
 *
 * vocis: a local voice engine. The whole public API.
 *
 *     vocis_error err = {0};
 *     vocis_engine *engine;
 *     vocis_model *model;
 *     vocis_session *session;
 *     vocis_result *result;
 *     vocis_engine_create(vocis_engine_default_params(), &engine, &err);
 *     vocis_model_open(engine, "base", vocis_model_default_params(), &model, &err);
 *     vocis_session_create(model, vocis_session_default_params(), &session, &err);
 *     vocis_transcribe_params params = vocis_transcribe_default_params();
 *     vocis_transcribe_file(session, "speech.wav", params, &result, &err);
 *     puts(vocis_result_text(result));
 *
 * An engine owns threads and kernels. A model is immutable and may serve any number of sessions
 * on any threads. A session is mutable and belongs to one thread at a time. Destroy in the
 * opposite order: results and sessions, then models, then the engine; every destroy accepts NULL.
 *
 * Errors: functions that can fail return a vocis_status and fill an optional vocis_error with one
 * sentence for a person. An err that already holds a failure is left alone, so set it to {0}
 * first; what a failed call should have made is NULL or empty. Nothing here prints or exits. The
 * environment counts where models are looked for (HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN,
 * HF_HUB_OFFLINE, VOCIS_CACHE, XDG_CACHE_HOME and others of the Hugging Face tools and of libcurl)
 * and where ffmpeg is (PATH). Text is UTF-8 everywhere; samples are mono float in [-1, 1] at
 * VOCIS_SAMPLE_RATE, and what is no finite number counts as silence; times are seconds.
 */
#ifndef VOCIS_H
#define VOCIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define VOCIS_API
#elif defined(__GNUC__)
#define VOCIS_API __attribute__((visibility("default")))
#else
#define VOCIS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define VOCIS_SAMPLE_RATE 16000

typedef struct vocis_engine vocis_engine;
typedef struct vocis_model vocis_model;
typedef struct vocis_session vocis_session;
typedef struct vocis_result vocis_result;

/* ---- errors ---------------------------------------------------------------------------------- */

typedef enum vocis_status {
    VOCIS_OK = 0,
    VOCIS_ERR_ARGUMENT,    /* the caller asked for something impossible */
    VOCIS_ERR_MEMORY,      /* out of memory */
    VOCIS_ERR_IO,          /* the operating system refused a read or a write */
    VOCIS_ERR_FORMAT,      /* a file's content is damaged or hostile */
    VOCIS_ERR_UNSUPPORTED, /* well-formed, but nothing here handles it */
    VOCIS_ERR_NOT_FOUND,   /* no such file, model or name */
    VOCIS_ERR_NETWORK,     /* a download failed */
    VOCIS_ERR_LIMIT,       /* a stated limit was exceeded */
    VOCIS_ERR_ABORTED,     /* a callback asked to stop */
    VOCIS_ERR_INTERNAL     /* a mistake in vocis */
} vocis_status;

typedef struct vocis_error {
    vocis_status status;
    char message[480];
} vocis_error;

/* A short name such as "damaged file"; static storage, never NULL. */
VOCIS_API const char *vocis_status_name(vocis_status status);
/* "0.1.0"; static storage. */
VOCIS_API const char *vocis_version(void);

typedef enum vocis_log_level {
    VOCIS_LOG_DEBUG,
    VOCIS_LOG_INFO,
    VOCIS_LOG_WARN,
    VOCIS_LOG_ERROR
} vocis_log_level;
/* One line without newline; may be called from several threads at once. */
typedef void (*vocis_log_fn)(void *user, vocis_log_level level, const char *line);

/* ---- engine ---------------------------------------------------------------------------------- */

typedef struct vocis_engine_params {
    int threads;      /* 0: physical cores that this process may use (affinity, cgroup quota) */
    const char *cpu;  /* highest level to use: "c", "avx2", "avx512", "neon"; NULL: all there is */
    vocis_log_fn log; /* NULL: silent */
    void *log_user;
    vocis_log_level log_level;
} vocis_engine_params;
VOCIS_API vocis_engine_params vocis_engine_default_params(void);
VOCIS_API vocis_status vocis_engine_create(vocis_engine_params params, vocis_engine **engine,
                                           vocis_error *err);
VOCIS_API void vocis_engine_destroy(vocis_engine *engine);
VOCIS_API int vocis_engine_threads(const vocis_engine *engine);
/* The instruction sets that were found and may be used, e.g. "avx2 avx512 vnni"; lives as long as
 * the engine. */
VOCIS_API const char *vocis_engine_cpu(const vocis_engine *engine);

/* Process-wide memory handed out by the library, in bytes. Thread safe. */
typedef struct vocis_memory {
    size_t active_bytes;
    size_t peak_bytes;
    uint64_t allocations; /* number of allocations so far */
} vocis_memory;
VOCIS_API vocis_memory vocis_memory_get(void);

/* ---- models ---------------------------------------------------------------------------------- */

/* Download progress; total is 0 while unknown. Return false to stop: what is there is kept. */
typedef bool (*vocis_download_fn)(void *user, const char *file, int64_t done, int64_t total);

/* Arithmetic: "f32" is exact to the reference; "bf16" rounds weights and activations to bf16, sums
 * in f32; "int8" quantises weights by rows and activations by tokens, sums exactly, and leaves the
 * rest at bf16 or f32; "int4" keeps weights in 4 bits, by groups of 32 or as a file of MLX has
 * them, and computes as bf16, with the token table as in int8; "auto" is bf16 where the processor
 * multiplies it, else f32. */
typedef struct vocis_model_params {
    const char *cache_dir; /* NULL: $VOCIS_CACHE, else $XDG_CACHE_HOME/vocis, else ~/.cache/vocis */
    bool offline;          /* never download */
    const char *compute;   /* arithmetic of the products; see below. NULL: "auto" */
    vocis_download_fn progress;
    void *progress_user;
} vocis_model_params;
VOCIS_API vocis_model_params vocis_model_default_params(void);

/* Makes sure that a model is on disk. name: a path that exists, a name of the table (below), or
 * "owner/repo" of the Hugging Face hub. *path is fresh memory: vocis_free. engine may be NULL. */
VOCIS_API vocis_status vocis_model_find(vocis_engine *engine, const char *name,
                                        vocis_model_params params, char **path, vocis_error *err);
/* Opens a speech model, fetching it first when it has to. Reads CTranslate2, safetensors of Hugging
 * Face and MLX, and whisper.cpp's ggml files; recognised by content. */
VOCIS_API vocis_status vocis_model_open(vocis_engine *engine, const char *name,
                                        vocis_model_params params, vocis_model **model,
                                        vocis_error *err);
VOCIS_API void vocis_model_destroy(vocis_model *model);
/* The arithmetic that "auto" became: "f32", "bf16", "int8", "int4". */
VOCIS_API const char *vocis_model_compute(const vocis_model *model);

/* Facts of a model file as a JSON object (sizes, layout, dtypes, tensors when `tensors`), without
 * loading it. *json is fresh memory: vocis_free. */
VOCIS_API vocis_status vocis_model_inspect(const char *path, bool tensors, char **json,
                                           vocis_error *err);

/* Bytes of weights that are written, and in all (0 before that is known). Return false to stop:
 * nothing is left behind. */
typedef bool (*vocis_convert_fn)(void *user, int64_t done, int64_t total);

typedef struct vocis_convert_params {
    /* Of the weights: "f32", "f16", "bf16", or "int8" and "int4", which are whole numbers of 8 and
     * 4 bits in groups with a scale and a bias in f16, the affine quantisation of MLX: "f16" */
    const char *dtype;
    int group_size; /* weights in a group: 32, 64 or 128. 64 */
    /* Layers that int8 and int4 leave in f16: patterns with * and ?, separated by commas, for names
     * like decoder.token_embedding and encoder.blocks.0.attn.query; NULL: none */
    const char *keep;
    /* Recordings of speech that the model is to be used for, ended by NULL: int4 is then chosen so
     * that the layers' outputs change least while it transcribes them (activation-aware scaling,
     * AWQ); some minutes do. Needs an engine. NULL: from the weights alone */
    const char *const *calibrate;
    bool overwrite; /* replace what an earlier conversion wrote there: false */
    vocis_convert_fn progress;
    void *progress_user;
} vocis_convert_params;
VOCIS_API vocis_convert_params vocis_convert_default_params(void);

/* Writes a model of any kind that is read as a new folder in the layout of MLX, which mlx-whisper,
 * mlx-audio and vocis load: weights, sizes, tokenizer. path: a file or a folder. The folder is
 * there whole or not at all; one that holds anything else is refused. engine may be NULL when there
 * is nothing to calibrate with. */
VOCIS_API vocis_status vocis_model_convert(vocis_engine *engine, const char *path,
                                           const char *folder, vocis_convert_params params,
                                           vocis_error *err);

/* One entry of the built-in table of models; static storage. */
typedef struct vocis_known_model {
    const char *name, *family, *repo, *licence, *description;
    int64_t bytes;
} vocis_known_model;
VOCIS_API int vocis_known_model_count(void);
VOCIS_API vocis_status vocis_known_model_get(int index, vocis_known_model *out);
/* Where it lies on disk (fresh memory: vocis_free), or NULL when it is not there. */
VOCIS_API char *vocis_known_model_path(const char *name, const char *cache_dir);

/* Languages a multilingual model may know: "en", "english"; NULL out of range. Static storage. */
VOCIS_API int vocis_language_count(void);
VOCIS_API const char *vocis_language_code(int index);
VOCIS_API const char *vocis_language_name(int index);
/* Index of a code or name in any case ("de", "German", also "Castilian"), or -1. */
VOCIS_API int vocis_language_find(const char *name);

/* ---- sessions -------------------------------------------------------------------------------- */

/* Speculative decoding: tokens that are likely to follow are proposed and verified by the model in
 * one step, which takes less time than a step for each. Tokens and log-probabilities are
 * those of plain decoding. It needs a single sequence: beam_size 1 at temperature 0, best_of 1
 * above; other decoding takes plain steps. Speech rarely repeats itself, so NGRAM brings little;
 * a draft pays when its step is much cheaper than the model's. AUTO times windows decoded with and
 * without proposals (of the draft, or NGRAM when there is none), goes on with what was faster, and
 * leaves windows that are decoded side by side alone. */
typedef enum vocis_speculation {
    VOCIS_SPECULATE_OFF,
    VOCIS_SPECULATE_NGRAM, /* what followed the same tokens earlier in the prompt or the text */
    VOCIS_SPECULATE_DRAFT, /* what a draft model would write */
    VOCIS_SPECULATE_AUTO
} vocis_speculation;

typedef struct vocis_session_params {
    int max_sequences; /* most beams or samples per window: bounds the memory of caches. 5 */
    int max_windows;   /* most windows decoded side by side; 0 and 1: one after the other. 1 */
    /* Most groups of those windows that go their own way, each with its share of the engine's
     * number of threads, so that some encode while others decode; 0: one for every four windows
     * and four threads. Several bring threads of their own, and take memory for activations each.
     * The result is the same. 0 */
    int max_workers;
    vocis_speculation speculate; /* VOCIS_SPECULATE_OFF */
    /* For DRAFT and AUTO: a model of the same engine with the same vocabulary, which must outlive
     * the session. One with the model's own sizes counts as the same model in other arithmetic
     * ("int8") and hears through its encoder; any other encodes every window too. NULL */
    vocis_model *draft;
} vocis_session_params;
VOCIS_API vocis_session_params vocis_session_default_params(void);
VOCIS_API vocis_status vocis_session_create(vocis_model *model, vocis_session_params params,
                                            vocis_session **session, vocis_error *err);
VOCIS_API void vocis_session_destroy(vocis_session *session);

/* ---- transcription --------------------------------------------------------------------------- */

/* A word, with its leading space and the punctuation that belongs to it. */
typedef struct vocis_word {
    const char *text;
    double start, end; /* seconds from the beginning of the input */
    float probability; /* mean over its tokens */
    int speaker;       /* from 0; -1: not known */
} vocis_word;

/* One piece of text with its times. Strings and arrays belong to the result. */
typedef struct vocis_segment {
    int id;
    double start, end; /* seconds from the beginning of the input */
    const char *text;  /* with the leading space the model gave it */
    const int32_t *tokens;
    const float *token_logprobs; /* [n_tokens] natural logarithms */
    int n_tokens;
    int64_t seek; /* first frame (10 ms) of the window it was decoded in */
    float temperature, avg_logprob, compression_ratio, no_speech_prob;
    const vocis_word *words; /* [n_words]; NULL unless word times were asked for */
    int n_words;
    int speaker;                /* who says most of it, from 0; -1: not known */
    bool recovered;             /* found by a second look at speech that the first had left out */
    const char *language;       /* code it was decoded with; static storage */
    float language_probability; /* of that, where it was detected; else 1 */
} vocis_segment;

typedef enum vocis_task { VOCIS_TRANSCRIBE, VOCIS_TRANSLATE } vocis_task;

/* Called for each finished segment, in order, on the calling thread; valid during the call. */
typedef void (*vocis_segment_fn)(void *user, const vocis_segment *segment);
/* Seconds of audio that are done, and in all. */
typedef void (*vocis_progress_fn)(void *user, double done, double total);
/* Polled between model steps; return true to stop with VOCIS_ERR_ABORTED. */
typedef bool (*vocis_abort_fn)(void *user);
/* Something about the input that did not stop the work, one sentence. */
typedef void (*vocis_warning_fn)(void *user, const char *sentence);

/* How the input is cut. SEQUENTIAL is the reference's way: a window slides over the input, and text
 * conditions what follows. SPEECH cuts at pauses found by voice activity detection into stretches
 * of at most 30 s that know nothing of each other; as many as the session has windows are decoded
 * side by side, with the same result as one by one. */
typedef enum vocis_chunking { VOCIS_CHUNK_SEQUENTIAL, VOCIS_CHUNK_SPEECH } vocis_chunking;

/* A phrase that the model should look out for, as it should be written: a name, a term. It is taken
 * where the model finds its tokens nearly as likely as what it would write otherwise; that is not a
 * prompt, and probabilities, thresholds and what is written elsewhere stay as they are. Words are
 * boosted as a whole, in this spelling or with a capital first letter. */
typedef struct vocis_boost {
    const char *phrase; /* UTF-8; without a letter or digit it is ignored */
    float weight; /* how far the model's opinion may be overruled; 1 is usual, 0: not at all */
} vocis_boost;
enum { VOCIS_MAX_BOOST = 10000, VOCIS_MAX_BOOST_BYTES = 256, VOCIS_MAX_BOOST_WEIGHT = 4 };

/* Names and meaning are those of openai-whisper's transcribe(), but for boost and chunking. */
typedef struct vocis_transcribe_params {
    /* Code or name; NULL: detect one, from the first 30 s, and where recover, guard or chunking
     * have the voice detector asked, from more windows if those are not sure. Everything is written
     * in it; a warning says where another one was spoken surely */
    const char *language;
    /* Codes or names with commas, or "all": what may be spoken. Each stretch of speech gets its own
     * language. Not with language. NULL: one language for all */
    const char *languages;
    vocis_task task;
    float temperature;                 /* first temperature: 0 */
    float temperature_increment;       /* added on fallback up to 1.0; 0: no fallback. 0.2 */
    int best_of;                       /* samples when temperature > 0: 5 */
    int beam_size;                     /* beams when temperature == 0; 1 is greedy: 5 */
    float patience;                    /* 1.0 */
    float length_penalty;              /* NaN: plain average of log-probabilities */
    const char *suppress_tokens;       /* "-1": non-speech symbols; comma-separated ids; "": none */
    bool suppress_blank;               /* true */
    const char *initial_prompt;        /* NULL: none */
    bool carry_initial_prompt;         /* repeat it before every window: false */
    const char *prefix;                /* forced beginning of every window's text; NULL: none */
    bool condition_on_previous_text;   /* true */
    float compression_ratio_threshold; /* above: try the next temperature; NaN: off. 2.4 */
    float logprob_threshold;           /* below: try the next temperature; NaN: off. -1 */
    float no_speech_threshold;     /* above, with a low log-probability: silence; NaN: off. 0.6 */
    bool without_timestamps;       /* false */
    float max_initial_timestamp;   /* seconds; 1.0 */
    const double *clip_timestamps; /* start, end, start, end ... in seconds; NULL: all */
    int n_clip_timestamps;
    bool word_timestamps;             /* times of words, from cross-attention: false */
    const char *prepend_punctuations; /* marks that belong to the word after them */
    const char *append_punctuations;  /* and before them */
    /* With word times: text that looks invented is skipped around silences longer than these
     * seconds; NaN: off. NaN */
    float hallucination_silence_threshold;
    /* Speech that the voice detector hears, and loud sound beside it, that no segment covers is
     * decoded again on its own. false (with guard false, and sequential chunking): exactly what the
     * reference gives. true */
    bool recover;
    /* Loops, and text where nobody speaks, are decoded again, or else removed and reported; text in
     * a script that its language is not written in is decoded again. true */
    bool guard;
    const vocis_boost *boost; /* NULL: none */
    int n_boost;
    vocis_chunking chunking; /* VOCIS_CHUNK_SEQUENTIAL; SPEECH goes with no clip timestamps */
    int max_tokens;          /* most tokens per window; 0: half the text context (224) */
    uint64_t seed;           /* for sampling: 0 */
    /* A file that keeps what is done, window by window. Called again with the same input, model and
     * settings, after the process died or the call failed at any moment, it goes on from there and
     * gives the same result; on_segment is called for what was found before, too. Threads and
     * windows side by side may be others. The caller removes it when the result is safe. One call
     * at a time may have it. NULL: none */
    const char *journal;
    vocis_segment_fn on_segment;
    vocis_progress_fn on_progress;
    vocis_abort_fn on_abort;
    vocis_warning_fn on_warning;
    void *user; /* handed to all four */
} vocis_transcribe_params;
VOCIS_API vocis_transcribe_params vocis_transcribe_default_params(void);

/* samples: [n_samples]; not kept. On VOCIS_ERR_ABORTED and on a failure midway *result holds what
 * was done until then (or NULL if nothing was). */
VOCIS_API vocis_status vocis_transcribe(vocis_session *session, const float *samples,
                                        int64_t n_samples, vocis_transcribe_params params,
                                        vocis_result **result, vocis_error *err);

/* How audio is read. */
typedef struct vocis_audio_params {
    int raw_rate;           /* > 0: headerless PCM at this rate */
    int raw_channels;       /* interleaved; 1 */
    const char *raw_format; /* "s16le", "f32le", "s32le", "u8" */
    double max_seconds;     /* refuse longer inputs; 0: 48 hours */
    int channel;            /* -1: mix all; else only this one (0 is the first) */
} vocis_audio_params;
VOCIS_API vocis_audio_params vocis_audio_default_params(void);

/* Decoded audio: mono at VOCIS_SAMPLE_RATE. */
typedef struct vocis_audio {
    float *samples; /* [n_samples] */
    int64_t n_samples;
    double duration; /* seconds */
    int source_rate, source_channels;
    char format[32];
    char warning[200]; /* "" or what is wrong with the file though it was read */
} vocis_audio;
/* Any file that libsndfile reads, by content; everything else through ffmpeg if it is installed. */
VOCIS_API vocis_status vocis_audio_load(const char *path, vocis_audio_params params,
                                        vocis_audio *audio, vocis_error *err);
/* Bytes of an encoded or raw stream; read returns their number, 0 at the end, -1 on failure. */
typedef int64_t (*vocis_read_fn)(void *user, void *data, size_t size);
VOCIS_API vocis_status vocis_audio_load_stream(vocis_read_fn read, void *user, const char *name,
                                               vocis_audio_params params, vocis_audio *audio,
                                               vocis_error *err);
VOCIS_API void vocis_audio_free(vocis_audio *audio);
/* The same block by block, in memory that does not grow with the input. take gets mono samples at
 * VOCIS_SAMPLE_RATE as they are decoded, and returns false to stop (VOCIS_ERR_ABORTED). What is
 * read through a callback is read in pieces of 20 ms, so that a live source is followed closely.
 * Channels are judged by the first second. *audio tells what vocis_audio_load tells, without
 * samples; there is no limit of time but params.max_seconds. */
typedef bool (*vocis_samples_fn)(void *user, const float *samples, int64_t n);
VOCIS_API vocis_status vocis_audio_read(const char *path, vocis_audio_params params,
                                        vocis_samples_fn take, void *take_user, vocis_audio *audio,
                                        vocis_error *err);
VOCIS_API vocis_status vocis_audio_read_stream(vocis_read_fn read, void *read_user,
                                               const char *name, vocis_audio_params params,
                                               vocis_samples_fn take, void *take_user,
                                               vocis_audio *audio, vocis_error *err);

/* As vocis_transcribe; frees the samples, and sets them to NULL, as soon as only their spectrogram
 * is needed, which has half the size. */
VOCIS_API vocis_status vocis_transcribe_audio(vocis_session *session, vocis_audio *audio,
                                              vocis_transcribe_params params, vocis_result **result,
                                              vocis_error *err);
VOCIS_API vocis_status vocis_transcribe_file(vocis_session *session, const char *path,
                                             vocis_transcribe_params params, vocis_result **result,
                                             vocis_error *err);
/* Samples by callback: it writes up to `size` of them and returns how many, 0 at the end, -1 on
 * failure. */
typedef int64_t (*vocis_pull_fn)(void *user, float *samples, int64_t size);
VOCIS_API vocis_status vocis_transcribe_pull(vocis_session *session, vocis_pull_fn pull,
                                             void *pull_user, vocis_transcribe_params params,
                                             vocis_result **result, vocis_error *err);

/* Language of the first 30 s. probabilities: [vocis_language_count()] or NULL. *best: an index. */
VOCIS_API vocis_status vocis_detect_language(vocis_session *session, const float *samples,
                                             int64_t n_samples, float *probabilities, int *best,
                                             vocis_error *err);

/* ---- results --------------------------------------------------------------------------------- */

VOCIS_API int vocis_result_segment_count(const vocis_result *result);
/* NULL out of range. Valid until the result is destroyed. */
VOCIS_API const vocis_segment *vocis_result_segment(const vocis_result *result, int index);
VOCIS_API const char *vocis_result_text(const vocis_result *result); /* all segments joined */
/* "en"; of several languages that of most speech; NULL when it was to be detected and nobody
 * speaks.
 */
VOCIS_API const char *vocis_result_language(const vocis_result *result);
/* Probability of that language when it was detected, else 1. */
VOCIS_API float vocis_result_language_probability(const vocis_result *result);
VOCIS_API double vocis_result_duration(const vocis_result *result); /* seconds of audio */

/* What became of a stretch of the input. */
typedef enum vocis_cover {
    VOCIS_COVER_TEXT,    /* a segment covers it, or ends just beside it */
    VOCIS_COVER_QUIET,   /* silence */
    VOCIS_COVER_SOUND,   /* something can be heard, but nobody who speaks */
    VOCIS_COVER_LOST,    /* it hears somebody, and no text could be found */
    VOCIS_COVER_SKIPPED, /* not asked for, or not reached before a failure */
    VOCIS_COVER_UNKNOWN  /* no text, and no voice detector was asked */
} vocis_cover;
typedef struct vocis_account {
    double start, end; /* seconds */
    vocis_cover cover;
} vocis_account;
/* Every second of the input, in order and without gaps; NULL out of range. */
VOCIS_API int vocis_result_account_count(const vocis_result *result);
VOCIS_API const vocis_account *vocis_result_account(const vocis_result *result, int index);
/* "text", "quiet", "sound", "lost", "skipped", "unknown"; static storage. */
VOCIS_API const char *vocis_cover_name(vocis_cover cover);

typedef struct vocis_coverage {
    bool known;           /* the voice detector was asked */
    double speech;        /* seconds of speech that it hears */
    double lost, skipped; /* of them without text */
    double recovered;     /* seconds of segments that a second look found */
    double ratio;         /* of speech with text; 1 when nobody speaks */
} vocis_coverage;
VOCIS_API vocis_coverage vocis_result_coverage(const vocis_result *result);

/* Text that was taken back. */
typedef struct vocis_removed {
    double start, end; /* seconds */
    const char *text;
    /* "loop", "nobody speaks", "misplaced", "too fast", "other script"; static */
    const char *reason;
} vocis_removed;
VOCIS_API int vocis_result_removed_count(const vocis_result *result);
/* NULL out of range. Valid until the result is destroyed. */
VOCIS_API const vocis_removed *vocis_result_removed(const vocis_result *result, int index);

/* Where the time went, in seconds (mel, encode and decode added up over the session's workers), and
 * counts; proposed and accepted are tokens of speculation. */
typedef struct vocis_timings {
    double total, mel, cut, encode, decode;
    int windows, fallbacks, steps, tokens, proposed, accepted;
} vocis_timings;
VOCIS_API vocis_timings vocis_result_timings(const vocis_result *result);
VOCIS_API void vocis_result_destroy(vocis_result *result);

/* ---- writing results ------------------------------------------------------------------------- */

typedef struct vocis_write_params {
    const char *source; /* name of the input for JSON; may be NULL */
    const char *model;  /* name of the model for JSON; may be NULL */
    bool json_tokens;   /* tokens and their log-probabilities in JSON: true */
    /* Subtitles (srt, vtt, lrc). Nothing set: each segment is a cue of one line. The four of
     * openai-whisper give what its writers give. Any of the others, or a style, brings a layout
     * that breaks at sentences and clauses and counts columns, in which wide characters count two.
     * Needs word times to be exact: without them a segment's time is shared out over its text. */
    const char *subtitle_style; /* NULL, "whisper": no rules; "broadcast": 42 columns, 2 lines, 20
                                 * columns a second, 5/6 to 7 s, gaps of 1/12 s; fills in what is
                                 * 0 below */
    int max_line_width;         /* 0: any. 0 */
    int max_line_count;         /* lines of a cue; needs max_line_width. 0: any. 0 */
    int max_words_per_line;     /* 0: any. 0 */
    float max_chars_per_second; /* reading speed, where pauses leave time for it; 0: any. 0 */
    float min_duration;         /* seconds of a cue, where there is room; 0: any. 0 */
    float max_duration;         /* 0: any. 0 */
    float min_gap;              /* seconds between cues; 0: none. 0 */
    bool highlight_words;       /* srt, vtt: a cue for each word, which is underlined: false */
    bool karaoke;               /* vtt, lrc: the time of every word in the text: false */
} vocis_write_params;
VOCIS_API vocis_write_params vocis_write_default_params(void);
/* format: "txt", "srt", "vtt", "tsv", "json", "csv", "lrc", or "rttm" (who speaks when; empty where
 * no speaker is known). The document is always valid UTF-8. *document is fresh NUL-terminated
 * memory: vocis_free. */
VOCIS_API vocis_status vocis_result_write(const vocis_result *result, const char *format,
                                          vocis_write_params params, char **document, size_t *size,
                                          vocis_error *err);

/* ---- text measures --------------------------------------------------------------------------- */

/* Whisper's normaliser: the English one for "en", else the basic one. vocis_free; NULL when memory
 * is short. */
VOCIS_API char *vocis_normalize(const char *text, const char *language);
typedef struct vocis_error_rate {
    int64_t substitutions, deletions, insertions, reference;
} vocis_error_rate;
/* Cheapest edits from reference to hypothesis, over words or (characters) over code points. */
VOCIS_API vocis_status vocis_compare(const char *reference, const char *hypothesis, bool characters,
                                     vocis_error_rate *out, vocis_error *err);

/* ---- voice activity -------------------------------------------------------------------------- */

typedef struct vocis_speech_params {
    float threshold;          /* 0.5 */
    int min_speech_ms;        /* 250 */
    int min_silence_ms;       /* 100 */
    int speech_pad_ms;        /* 30 */
    float max_speech_seconds; /* infinity */
} vocis_speech_params;
VOCIS_API vocis_speech_params vocis_speech_default_params(void);
typedef struct vocis_span {
    double start, end; /* seconds */
} vocis_span;
/* Where somebody speaks, by Silero VAD, whose weights are built in. *spans: vocis_free. */
VOCIS_API vocis_status vocis_detect_speech(vocis_engine *engine, const float *samples,
                                           int64_t n_samples, vocis_speech_params params,
                                           vocis_span **spans, int *n_spans, vocis_error *err);

/* ---- speakers -------------------------------------------------------------------------------- */

typedef struct vocis_turn {
    double start, end; /* seconds */
    int speaker;       /* from 0, in the order of their first turns */
} vocis_turn;

typedef struct vocis_diarize_params {
    int min_speakers, max_speakers; /* how many there may be; 0: any number. 0 */
    vocis_progress_fn on_progress;
    vocis_abort_fn on_abort;
    void *user; /* handed to both */
} vocis_diarize_params;
VOCIS_API vocis_diarize_params vocis_diarize_default_params(void);
/* Who speaks when, by voice: speech is found by Silero VAD, voices are compared by a GE2E speaker
 * encoder, both built in. *turns: in order of time, vocis_free. */
VOCIS_API vocis_status vocis_diarize(vocis_engine *engine, const float *samples, int64_t n_samples,
                                     vocis_diarize_params params, vocis_turn **turns, int *n_turns,
                                     vocis_error *err);
/* Gives words and segments the speaker who has most of their time, or, outside of all turns, that
 * of the nearest turn within 2 s. Where words are known, a segment is cut where the speaker
 * changes; its parts have no tokens. After a failure some may have speakers already. */
VOCIS_API vocis_status vocis_result_assign_speakers(vocis_result *result, const vocis_turn *turns,
                                                    int n_turns, vocis_error *err);

/* Recordings with a speaker in each channel, as calls are. channels: [n_channels], loaded one by
 * one (vocis_audio_params.channel), at the same rate and of about one length.
 *
 * Whether two channels are such a recording: neither is silent, there is speech in both, and they
 * do not rise and fall together. */
VOCIS_API vocis_status vocis_channels_separate(vocis_engine *engine, const vocis_audio channels[2],
                                               bool *separate, vocis_error *err);
/* The turns of every channel, by voice activity detection. Sound that comes over from another
 * channel (10 dB or more weaker than there) is replaced by silence in the samples. */
VOCIS_API vocis_status vocis_channels_diarize(vocis_engine *engine, vocis_audio *channels,
                                              int n_channels, vocis_turn **turns, int *n_turns,
                                              vocis_error *err);
/* Transcribes every channel by itself, without what comes over from another, and merges the
 * segments by time; speaker is the channel. Channels without speech are left out. Chunking is by
 * SPEECH unless there are clip timestamps. on_segment is called at the end, in order. Samples are
 * freed as in vocis_transcribe_audio. After a failure midway *result holds the channels done. */
VOCIS_API vocis_status vocis_transcribe_channels(vocis_session *session, vocis_audio *channels,
                                                 int n_channels, vocis_transcribe_params params,
                                                 vocis_result **result, vocis_error *err);

/* ---- streams: speech without end ---------------------------------------------------------------
 *
 *     vocis_stream_create(session, vocis_stream_default_params(), &stream, &err);
 *     while (there is sound) {
 *         vocis_stream_push(stream, samples, n, &err);
 *         while (vocis_stream_next(stream, 0, &event, &err) == VOCIS_OK && event.kind) use(&event);
 *     }
 *     vocis_stream_finish(stream);
 *     while (vocis_stream_next(stream, 1, &event, &err) == VOCIS_OK &&
 *            event.kind != VOCIS_EVENT_END) use(&event);
 *     vocis_stream_destroy(stream);
 *
 * Samples go in, events come out, in memory that does not grow. Voice activity detection cuts the
 * stream into utterances, which end at pauses, or after 30 s in the longest pause so far. Each is
 * transcribed as vocis_transcribe does it, with one difference: what is much quieter than the
 * loudest sound counts as silence, and in a stream the loudest sound is that of the utterance, not
 * of the whole input. The finals depend on the samples alone, not on how they are pushed, nor on
 * time, unless something had to be skipped.
 *
 * A thread of the stream does the work. push, next and finish may be called from different threads;
 * create and destroy may not overlap with other calls. The session belongs to the stream until that
 * is destroyed. */
typedef struct vocis_stream vocis_stream;

typedef struct vocis_stream_params {
    /* Of finals; strings are copied, phrases to boost are borrowed for the life of the stream.
     * Callbacks, clip timestamps, chunking and a journal do not count.
     * condition_on_previous_text: the text of the finals before; false here. A language that is
     * detected with a probability of 0.8 stays. */
    vocis_transcribe_params transcribe;
    /* min_silence_ms is the pause that ends an utterance (500), speech_pad_ms of which belong to it
     * (200), min_speech_ms what is no noise (200), max_speech_seconds 30 at most. */
    vocis_speech_params speech;
    /* Seconds of new speech after which partial text is decoded anew; 0: no partial text. 0.5 */
    double step;
    /* true: push never waits. What the machine cannot keep up with is dealt with in this order:
     * partial text is left out; finals come late; when more than 30 s + max_backlog of sound since
     * the beginning of the oldest unfinished utterance wait, all but the newest half is skipped,
     * and an event says so. false: push waits until there is room, nothing is skipped, and there
     * is no partial text. true */
    bool live;
    double max_backlog; /* seconds; 60 */
} vocis_stream_params;
VOCIS_API vocis_stream_params vocis_stream_default_params(void);

typedef enum vocis_event_kind {
    VOCIS_EVENT_NONE,         /* nothing happened so far */
    VOCIS_EVENT_SPEECH_START, /* an utterance begins */
    VOCIS_EVENT_PARTIAL,      /* what is said so far: stable text, and what may still change */
    VOCIS_EVENT_FINAL,        /* one of its segments, which replaces the partial text */
    VOCIS_EVENT_SPEECH_END,   /* all of its segments came */
    VOCIS_EVENT_SKIPPED,      /* start to end was not listened to: overload. Utterances that began
                               * before its end and have not ended are over */
    VOCIS_EVENT_END           /* after vocis_stream_finish: there will be nothing else */
} vocis_event_kind;

typedef struct vocis_event {
    vocis_event_kind kind;
    int utterance;                /* from 1; noise leaves no gaps */
    double start, end;            /* seconds from the beginning of the stream */
    double heard;                 /* seconds of sound that had been pushed when it was made */
    const char *stable;           /* PARTIAL: only grows within an utterance; may be "" */
    const char *rest;             /* PARTIAL: what follows it */
    const vocis_segment *segment; /* FINAL */
    const char *language;         /* FINAL: code; static storage */
} vocis_event;

VOCIS_API vocis_status vocis_stream_create(vocis_session *session, vocis_stream_params params,
                                           vocis_stream **stream, vocis_error *err);
/* samples: [n], not kept. Fails with what stopped the work; VOCIS_ERR_LIMIT: the stream is not
 * live, and 4096 events wait to be taken. */
VOCIS_API vocis_status vocis_stream_push(vocis_stream *stream, const float *samples, int64_t n,
                                         vocis_error *err);
/* The next event, if one comes within `seconds` (0: do not wait), else one of kind NONE. What
 * *event points to is valid until the next call. Partial text that nobody took is replaced by newer
 * one. Fails with what stopped the work, after all events from before. */
VOCIS_API vocis_status vocis_stream_next(vocis_stream *stream, double seconds, vocis_event *event,
                                         vocis_error *err);
/* No more samples will come. Does not wait. */
VOCIS_API void vocis_stream_finish(vocis_stream *stream);
/* Stops the work at once. */
VOCIS_API void vocis_stream_destroy(vocis_stream *stream);

/* ---- microphones ----------------------------------------------------------------------------- */

typedef struct vocis_input_device {
    int index;
    char name[128], system[32]; /* of the sound system: "ALSA" */
    int channels;
    double rate; /* its usual one, per second */
    bool is_default;
} vocis_input_device;
/* What can record; *devices: vocis_free. */
VOCIS_API vocis_status vocis_input_devices(vocis_input_device **devices, int *n, vocis_error *err);

typedef struct vocis_capture vocis_capture;
/* Starts recording. device: a number of vocis_input_devices, part of a name, "file:PATH" (a file
 * that is played in real time, for tests), or NULL: the system's default. A device that is lost
 * later is opened again as soon as it is back; until then silence stands for it, so that time goes
 * on. */
VOCIS_API vocis_status vocis_capture_open(const char *device, vocis_capture **capture,
                                          vocis_error *err);
/* Up to `size` mono samples at VOCIS_SAMPLE_RATE, as soon as there are some. 0: none came within
 * `seconds`; -1: there will be no more. One thread at a time. */
VOCIS_API int64_t vocis_capture_read(vocis_capture *capture, float *samples, int64_t size,
                                     double seconds);
typedef struct vocis_capture_stats {
    int64_t lost_samples; /* that were not read within 10 s */
    int64_t overflows;    /* how often the device itself lost some */
    int losses;           /* how often the device was lost */
    bool connected;
} vocis_capture_stats;
VOCIS_API vocis_capture_stats vocis_capture_get_stats(const vocis_capture *capture);
VOCIS_API void vocis_capture_close(vocis_capture *capture);

/* ---- measuring ------------------------------------------------------------------------------- */

/* One step of the decoder: a token for each of `rows` sequences that listen to `windows` windows.
 */
typedef struct vocis_step_time {
    int rows, windows;
    double seconds;   /* 0 where the session has not as many */
    double megabytes; /* weights, and keys and values of the windows, that a step must read */
} vocis_step_time;

enum { VOCIS_STEP_TIMES = 5 };

typedef struct vocis_benchmark {
    double peak_gflops;    /* 10^9 operations a second: the model's arithmetic on all threads */
    double read_gbs;       /* 10^9 bytes a second from memory on all threads */
    double mel_seconds;    /* one 30 s window */
    double encode_seconds; /* one window, with the keys and values of cross-attention */
    double encode_gflops;  /* work of that window in 10^9 operations: divide to get a rate */
    vocis_step_time steps[VOCIS_STEP_TIMES];
} vocis_benchmark;
/* Medians over `runs` runs on synthetic input. */
VOCIS_API vocis_status vocis_session_benchmark(vocis_session *session, int runs,
                                               vocis_benchmark *out, vocis_error *err);

/* Frees what the functions above say to free; NULL allowed. */
VOCIS_API void vocis_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
