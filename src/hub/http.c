/* SPDX-License-Identifier: MIT
 *
 * HTTP over libcurl, for one endpoint. Redirects are followed by hand, one request at a time:
 * so the token goes to the endpoint's own scheme, host and port and nowhere else, and what the
 * endpoint states about a file (its SHA-256) is read from the endpoint alone, before it sends
 * us on to some storage host.
 */
#include "base/clock.h"
#include "base/file.h"
#include "hub/hub_internal.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HOPS = 10, SLOWEST_BYTES_PER_SECOND = 1024, MAX_REFUSAL_BODY = 1 << 20 };

struct vo_http {
    CURL *curl;
    char *endpoint; /* without a '/' at the end */
    char *token;
    vo_hub_context *context;
    char message[CURL_ERROR_SIZE];
};

/* One answer on its way in, to memory or to a file. */
typedef struct transfer {
    vo_http *http;
    /* of the present hop */
    bool trusted; /* the endpoint itself is speaking */
    int status;
    int64_t content_bytes, range_start, refusal_bytes;
    /* of the whole request */
    char linked_sha256[65], etag_sha256[65];
    int64_t linked_bytes;
    vo_buf *text;
    size_t limit;
    FILE *file;
    const char *path, *label;
    int64_t offset, expected, received;
    bool started, too_large, bad_range, stopped;
    int write_errno;
} transfer;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode global_result;
static void init_curl(void) {
    global_result = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- reading the answer ---- */

/* The value of header `name` in a line, NULL when the line is another one. */
static const char *header_value(const char *line, size_t size, const char *name) {
    size_t n = strlen(name);
    if (size <= n || line[n] != ':') return NULL;
    for (size_t i = 0; i < n; i++)
        if ((line[i] | 0x20) != (name[i] | 0x20)) return NULL;
    return line + n + 1;
}

static bool hex_digit(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* An entity tag that is a SHA-256 (the hub uses it so for large files); else left empty. */
static void take_sha256(const char *value, char sha256[65]) {
    while (*value == ' ' || *value == '"') value++;
    size_t n = 0;
    while (n < 64 && hex_digit(value[n])) n++;
    if (n != 64 || hex_digit(value[64])) return;
    for (size_t i = 0; i < 64; i++)
        sha256[i] = (char)(value[i] >= 'A' && value[i] <= 'F' ? value[i] | 0x20 : value[i]);
    sha256[64] = '\0';
}

static size_t on_header(char *data, size_t size, size_t count, void *user) {
    transfer *t = user;
    size_t bytes = size * count;
    char line[512];
    size_t n = bytes < sizeof line - 1 ? bytes : sizeof line - 1;
    memcpy(line, data, n);
    line[n] = '\0';
    const char *value = NULL;
    if (strncmp(line, "HTTP/", 5) == 0) {
        const char *space = strchr(line, ' ');
        t->status = space ? (int)strtol(space + 1, NULL, 10) : 0;
        t->content_bytes = -1;
        t->range_start = -1;
    } else if ((value = header_value(line, n, "content-length"))) {
        t->content_bytes = strtoll(value, NULL, 10);
    } else if ((value = header_value(line, n, "content-range"))) {
        const char *bytes_unit = strstr(value, "bytes ");
        if (bytes_unit) t->range_start = strtoll(bytes_unit + 6, NULL, 10);
    } else if (t->trusted && (value = header_value(line, n, "x-linked-etag"))) {
        take_sha256(value, t->linked_sha256);
    } else if (t->trusted && (value = header_value(line, n, "etag"))) {
        take_sha256(value, t->etag_sha256);
    } else if (t->trusted && (value = header_value(line, n, "x-linked-size"))) {
        t->linked_bytes = strtoll(value, NULL, 10);
    }
    return bytes;
}

/* The first bytes of a body decide whether we append or begin anew. */
static bool begin_file(transfer *t) {
    t->started = true;
    if (t->offset == 0) return t->status == 200;
    if (t->status == 206) return t->range_start == t->offset;
    t->file = freopen(t->path, "wb", t->file);
    if (!t->file) t->write_errno = errno;
    t->offset = 0;
    return t->file != NULL;
}

static size_t on_body(char *data, size_t size, size_t count, void *user) {
    transfer *t = user;
    size_t bytes = size * count;
    if (t->status < 200 || t->status > 299) {
        t->refusal_bytes += (int64_t)bytes;
        return t->refusal_bytes > MAX_REFUSAL_BODY ? 0 : bytes;
    }
    if (t->text) {
        t->too_large = bytes > t->limit - t->text->size;
        if (t->too_large) return 0;
        vo_buf_append(t->text, data, bytes);
        return t->text->failed ? 0 : bytes;
    }
    if (!t->started && !begin_file(t)) {
        t->bad_range = t->write_errno == 0;
        return 0;
    }
    t->too_large = t->expected > 0 && (int64_t)bytes > t->expected - t->offset - t->received;
    if (t->too_large) return 0;
    errno = 0;
    if (fwrite(data, 1, bytes, t->file) != bytes) {
        t->write_errno = errno ? errno : EIO;
        return 0;
    }
    t->received += (int64_t)bytes;
    return bytes;
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up_now) {
    (void)total, (void)now, (void)up_total, (void)up_now;
    transfer *t = user;
    int64_t expected = t->expected;
    if (!expected && t->content_bytes > 0 && t->status < 300)
        expected = t->offset + t->content_bytes;
    if (!t->label) expected = 0;
    t->stopped = !vo_hub_report(t->http->context, t->label ? t->label : "the list of files",
                                t->offset + t->received, expected, false);
    return t->stopped;
}

/* ---- hops ---- */

static bool same_part(CURLU *a, CURLU *b, CURLUPart part, unsigned flags) {
    char *x = NULL, *y = NULL;
    bool same = curl_url_get(a, part, &x, flags) == CURLUE_OK &&
                curl_url_get(b, part, &y, flags) == CURLUE_OK && curl_strequal(x, y);
    curl_free(x);
    curl_free(y);
    return same;
}

static bool same_origin(const char *url, const char *other) {
    CURLU *a = curl_url(), *b = curl_url();
    bool same = a && b && curl_url_set(a, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_set(b, CURLUPART_URL, other, 0) == CURLUE_OK &&
                same_part(a, b, CURLUPART_SCHEME, 0) && same_part(a, b, CURLUPART_HOST, 0) &&
                same_part(a, b, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    curl_url_cleanup(a);
    curl_url_cleanup(b);
    return same;
}

static void set_options(vo_http *http, transfer *t, const char *url, struct curl_slist *headers,
                        const char *range) {
    CURL *c = http->curl;
    curl_easy_reset(c);
    http->message[0] = '\0';
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_RANGE, range);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(c, CURLOPT_USERAGENT, "vocis/" VO_VERSION);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, http->message);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 256L * 1024);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, http->context->timeouts.connect_seconds);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)SLOWEST_BYTES_PER_SECOND);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, http->context->timeouts.stall_seconds);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
    /* The curl program reads these variables, the library does not. */
    const char *ca = getenv("CURL_CA_BUNDLE");
    if (!ca || !*ca) ca = getenv("SSL_CERT_FILE");
    if (ca && *ca) curl_easy_setopt(c, CURLOPT_CAINFO, ca);
}

/* One request. Only the endpoint gets the token. */
static CURLcode request(vo_http *http, transfer *t, const char *url, const char *range) {
    struct curl_slist *headers = NULL;
    t->trusted = same_origin(url, http->endpoint);
    t->status = 0;
    t->content_bytes = t->range_start = -1;
    t->refusal_bytes = 0;
    if (t->trusted && http->token) {
        char *line = vo_format("Authorization: Bearer %s", http->token);
        headers = line ? curl_slist_append(NULL, line) : NULL;
        vo_free(line);
        if (!headers) return CURLE_OUT_OF_MEMORY;
    }
    set_options(http, t, url, headers, range);
    CURLcode code = curl_easy_perform(http->curl);
    curl_slist_free_all(headers);
    return code;
}

static bool is_redirect(int status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Follows redirects until an answer that is none. */
static CURLcode request_all(vo_http *http, transfer *t, const char *first, vo_error *err) {
    char range[32];
    char *url = vo_strdup(first);
    CURLcode code = url ? CURLE_OK : CURLE_OUT_OF_MEMORY;
    for (int hop = 0; code == CURLE_OK; hop++) {
        snprintf(range, sizeof range, "%lld-", (long long)t->offset);
        code = request(http, t, url, t->offset > 0 ? range : NULL);
        if (code != CURLE_OK || !is_redirect(t->status)) break;
        char *next = NULL;
        curl_easy_getinfo(http->curl, CURLINFO_REDIRECT_URL, &next);
        if (!next || hop == MAX_HOPS) {
            vo_fail(err, VO_ERR_NETWORK, "%s redirects %s", first,
                    next ? "without end" : "to nowhere");
            code = CURLE_TOO_MANY_REDIRECTS;
        } else if (strncmp(url, "https:", 6) == 0 && strncmp(next, "https:", 6) != 0) {
            vo_fail(err, VO_ERR_NETWORK, "%s redirects from https to an unprotected address",
                    first);
            code = CURLE_UNSUPPORTED_PROTOCOL;
        } else {
            char *copy = vo_strdup(next);
            vo_free(url);
            url = copy;
            if (!url) code = CURLE_OUT_OF_MEMORY;
        }
    }
    vo_free(url);
    return code;
}

/* ---- what a failure means ---- */

static vo_status explain_status(const transfer *t, const char *url, vo_error *err) {
    switch (t->status) {
    case 401:
    case 403:
        return vo_fail(err, VO_ERR_NOT_FOUND,
                       "%s was refused (HTTP %d): it does not exist or needs a token in HF_TOKEN",
                       url, t->status);
    case 404:
    case 410:
        return vo_fail(err, VO_ERR_NOT_FOUND, "there is no %s (HTTP %d)", url, t->status);
    default:
        return vo_fail(err, VO_ERR_NETWORK, "%s was answered with HTTP %d", url, t->status);
    }
}

static vo_status explain(const transfer *t, CURLcode code, const char *url, vo_error *err) {
    if (t->stopped) return vo_fail(err, VO_ERR_ABORTED, "the download was stopped");
    if (t->write_errno)
        return vo_fail(err, VO_ERR_IO, "cannot write %s: %s", t->path, strerror(t->write_errno));
    if (code == CURLE_OUT_OF_MEMORY || (t->text && t->text->failed))
        return vo_fail(err, VO_ERR_MEMORY, "out of memory while downloading");
    if (t->too_large)
        return vo_fail(err, VO_ERR_FORMAT, "%s is larger than the %lld bytes that it should have",
                       url, (long long)(t->text ? (int64_t)t->limit : t->expected));
    if (t->bad_range)
        return vo_fail(err, VO_ERR_NETWORK, "%s was answered with another range than asked for",
                       url);
    if (t->status >= 300 && !is_redirect(t->status)) return explain_status(t, url, err);
    if (code == CURLE_OK) return VO_OK;
    const char *reason = t->http->message[0] ? t->http->message : curl_easy_strerror(code);
    return vo_fail(err, VO_ERR_NETWORK, "cannot get %s: %s", url, reason);
}

static bool worth_retrying(const transfer *t, CURLcode code) {
    if (t->status >= 500 || t->status == 429 || t->bad_range) return true;
    return code != CURLE_OK && t->received > 0;
}

/* ---- the three verbs ---- */

vo_status vo_http_open(const char *endpoint, const char *token, vo_hub_context *context,
                       vo_http **out, vo_error *err) {
    *out = NULL;
    if (strncmp(endpoint, "https://", 8) != 0 && strncmp(endpoint, "http://", 7) != 0)
        return vo_fail(err, VO_ERR_ARGUMENT,
                       "HF_ENDPOINT must begin with https:// or http://, not \"%s\"", endpoint);
    pthread_once(&once, init_curl);
    vo_http *http = vo_alloc(sizeof *http);
    if (!http || global_result != CURLE_OK) goto fail;
    size_t n = strlen(endpoint);
    while (n > 0 && endpoint[n - 1] == '/') n--;
    http->context = context;
    http->endpoint = vo_strndup(endpoint, n);
    http->token = token ? vo_strdup(token) : NULL;
    http->curl = curl_easy_init();
    if (!http->endpoint || (token && !http->token) || !http->curl) goto fail;
    *out = http;
    return VO_OK;
fail:
    vo_http_close(http);
    return vo_fail(err, VO_ERR_MEMORY, "cannot set up libcurl");
}

void vo_http_close(vo_http *http) {
    if (!http) return;
    if (http->curl) curl_easy_cleanup(http->curl);
    vo_free(http->endpoint);
    vo_free(http->token);
    vo_free(http);
}

vo_status vo_http_get_text(vo_http *http, const char *path, size_t limit, vo_buf *text,
                           vo_error *err) {
    transfer t = {.http = http, .text = text, .limit = limit, .linked_bytes = -1};
    char *url = vo_format("%s%s", http->endpoint, path);
    if (!url) return vo_fail(err, VO_ERR_MEMORY, "out of memory while downloading");
    vo_buf_clear(text);
    vo_error why = {0};
    CURLcode code = request_all(http, &t, url, &why);
    vo_status status = explain(&t, code, url, &why);
    if (status != VO_OK) vo_fail(err, why.status, "%s", why.message);
    vo_free(url);
    return status;
}

static vo_status open_target(transfer *t, vo_error *err) {
    int64_t size = vo_file_size(t->path);
    t->offset = size > 0 && (!t->expected || size < t->expected) ? size : 0;
    t->file = fopen(t->path, t->offset > 0 ? "ab" : "wb");
    if (t->file) return VO_OK;
    return vo_fail(err, VO_ERR_IO, "cannot write %s: %s", t->path, strerror(errno));
}

vo_status vo_http_get_file(vo_http *http, const char *path, const char *to, const char *label,
                           int64_t bytes, vo_http_answer *answer, vo_error *err) {
    transfer t = {.http = http, .path = to, .label = label, .expected = bytes, .linked_bytes = -1};
    vo_error why = {0};
    CURLcode code = CURLE_OUT_OF_MEMORY;
    vo_status status = VO_OK;
    char *url = vo_format("%s%s", http->endpoint, path);
    memset(answer, 0, sizeof *answer);
    if (!url) return vo_fail(err, VO_ERR_MEMORY, "out of memory while downloading");
    status = open_target(&t, &why);
    if (status != VO_OK) goto done;
    code = request_all(http, &t, url, &why);
    /* An empty body never came by begin_file. */
    if (code == CURLE_OK && t.status == 200 && !t.started) begin_file(&t);
    if (t.file && fclose(t.file) != 0 && !t.write_errno) t.write_errno = errno;
    status = explain(&t, code, url, &why);
    /* 416: what we hold is not a beginning of what is there now. */
    if (t.status == 416 || t.bad_range) vo_remove_file(to, NULL);
    answer->worth_retrying =
        status == VO_ERR_NETWORK && (worth_retrying(&t, code) || (t.status == 416 && t.offset > 0));
done:
    answer->status = t.status;
    memcpy(answer->sha256, t.linked_sha256[0] ? t.linked_sha256 : t.etag_sha256, 65);
    answer->bytes = t.linked_bytes;
    answer->received = t.received;
    answer->from_the_start = t.offset == 0;
    if (status != VO_OK) vo_fail(err, why.status, "%s", why.message);
    vo_free(url);
    return status;
}
