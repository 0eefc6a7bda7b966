/* SPDX-License-Identifier: MIT
 *
 * SHA-256 by libcrypto. A failure inside it leaves an empty digest, which equals no digest. CRC-32C
 * bit by bit: records are small.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <unistd.h>

struct vo_sha256 {
    EVP_MD_CTX *context;
    bool failed;
};

vo_sha256 *vo_sha256_create(void) {
    vo_sha256 *hash = vo_alloc(sizeof *hash);
    if (hash == NULL) return NULL;
    hash->context = EVP_MD_CTX_new();
    if (hash->context == NULL || EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) != 1) {
        vo_sha256_destroy(hash);
        return NULL;
    }
    return hash;
}

void vo_sha256_update(vo_sha256 *hash, const void *data, size_t size) {
    if (size > 0 && EVP_DigestUpdate(hash->context, data, size) != 1) hash->failed = true;
}

void vo_sha256_finish(vo_sha256 *hash, char hex[65]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    hex[0] = '\0';
    if (EVP_DigestFinal_ex(hash->context, digest, &size) != 1 || hash->failed || size != 32) return;
    for (unsigned i = 0; i < size; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = '\0';
}

void vo_sha256_destroy(vo_sha256 *hash) {
    if (hash == NULL) return;
    EVP_MD_CTX_free(hash->context);
    vo_free(hash);
}

vo_status vo_sha256_file(const char *path, char hex[65], vo_error *err) {
    enum { PIECE = 1 << 18 };
    vo_status status = VO_OK;
    hex[0] = '\0';
    vo_sha256 *hash = vo_sha256_create();
    char *piece = vo_alloc_uninitialized(PIECE);
    int fd = -1;
    if (hash == NULL || piece == NULL) {
        status = vo_fail(err, VO_ERR_MEMORY, "out of memory while hashing %s", path);
        goto done;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        status = vo_fail_system(err, errno, "cannot open", path);
        goto done;
    }
    for (;;) {
        ssize_t n = read(fd, piece, PIECE);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            status = vo_fail_system(err, errno, "cannot read", path);
            goto done;
        }
        if (n == 0) break;
        vo_sha256_update(hash, piece, (size_t)n);
    }
    vo_sha256_finish(hash, hex);
    if (hex[0] == '\0') status = vo_fail(err, VO_ERR_INTERNAL, "cannot hash %s", path);
done:
    if (fd >= 0) close(fd);
    vo_free(piece);
    vo_sha256_destroy(hash);
    return status;
}

uint32_t vo_crc32c(uint32_t crc, const void *data, size_t size) {
    const unsigned char *p = data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}
